// A Streamable HTTP endpoint over the stdio server, for judges that speak nothing else. For tests only: it is no way to deploy the server.
//
//   node bridge.mjs --era legacy|modern -- COMMAND [ARG…]
//
// Prints `{"url": …}` on one line when it listens, serves until its stdin ends, and forwards each JSON-RPC message unchanged. What HTTP
// adds is checked here, because only here is HTTP: Host and Origin (DNS rebinding), the headers that repeat the body's words
// (2026-07-28), the session header (2025-11-25), and the status that an error maps to.
//
// legacy: one server process per session. modern: one per request. A stateless server must not notice, and request ids of different
// HTTP clients, which may be equal, never meet.
//
// Ends with status 3 if the server ever sends a request: that is a fault of the product, which no HTTP client could show.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';

const HEADER_MISMATCH = -32020;
const NOT_FOUND = -32601;
const META = 'io.modelcontextprotocol/protocolVersion';
const MAX_BODY = 4 * 1024 * 1024;

const dashes = process.argv.indexOf('--');
const era = process.argv[process.argv.indexOf('--era') + 1];
const [command, ...commandArgs] = process.argv.slice(dashes + 1);
if (dashes < 0 || !command || !['legacy', 'modern'].includes(era)) {
  console.error('usage: node bridge.mjs --era legacy|modern -- COMMAND [ARG…]');
  process.exit(2);
}

/** A server process: lines in, messages out. */
class Server {
  static all = new Set();

  constructor(onMessage) {
    this.child = spawn(command, commandArgs, { stdio: ['pipe', 'pipe', 'inherit'] });
    Server.all.add(this);
    this.gone = new Promise((resolve) => this.child.on('close', resolve));
    this.gone.then(() => Server.all.delete(this));
    // A server that ends while we write is seen by its silence.
    this.child.stdin.on('error', () => {});
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      const message = JSON.parse(line);
      if (message.method !== undefined && message.id !== undefined) {
        console.error(`the server sent a request: ${line}`);
        process.exit(3);
      }
      onMessage(message);
    });
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  end() {
    this.child.stdin.end();
    return this.gone;
  }
}

/** One HTTP response: JSON if the answer is all there is, an event stream if something comes before it. */
class Reply {
  constructor(response, acceptsStream) {
    this.response = response;
    this.acceptsStream = acceptsStream;
    this.streaming = false;
  }

  notify(message) {
    if (!this.acceptsStream || this.response.writableEnded) return;
    if (!this.streaming) {
      this.streaming = true;
      this.response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
    }
    this.#event(message);
  }

  finish(message, headers = {}) {
    if (this.response.writableEnded) return;
    if (this.streaming) {
      this.#event(message);
      this.response.end();
    } else {
      this.response.writeHead(statusOf(message), { 'Content-Type': 'application/json', ...headers });
      this.response.end(JSON.stringify(message));
    }
  }

  #event(message) {
    this.response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }
}

function statusOf(message) {
  if (message.error === undefined) return 200;
  // 2025-11-25 answers errors of the protocol with 200; only the transport's own refusals have other statuses there.
  if (era === 'legacy') return 200;
  return message.error.code === NOT_FOUND ? 404 : 400;
}

function refuse(response, status, code, text, id) {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), error: { code, message: text } }));
}

/** The name that `Mcp-Name` repeats, where the method has one. */
function nameOf({ method, params }) {
  if (method === 'tools/call' || method === 'prompts/get') return params?.name;
  return method === 'resources/read' ? params?.uri : undefined;
}

/** What is wrong with the headers of a modern request, or nothing. Node has removed white space around values. */
function headerFault(headers, message) {
  const expected = { 'mcp-protocol-version': message.params?._meta?.[META], 'mcp-method': message.method, 'mcp-name': nameOf(message) };
  if (headers['mcp-protocol-version'] === undefined) return 'the header MCP-Protocol-Version is missing';
  for (const [header, word] of Object.entries(expected)) {
    // A body without its version is for the server to judge: the header has nothing to differ from.
    if (typeof word === 'string' && headers[header] !== word) {
      return `the header ${header} is ${JSON.stringify(headers[header] ?? null)}, the body says ${JSON.stringify(word)}`;
    }
  }
  return undefined;
}

function modern(request, response, message) {
  const fault = headerFault(request.headers, message);
  if (fault) return refuse(response, 400, HEADER_MISMATCH, fault, message.id);
  if (message.id === undefined) return response.writeHead(202).end();
  const reply = new Reply(response, accepts(request, 'text/event-stream'));
  const server = new Server((answer) => {
    if (answer.method !== undefined) return reply.notify(answer);
    reply.finish(answer);
    server.end();
  });
  // A request that is given up is cancelled by closing its stream; for the process it is the end of its input.
  response.on('close', () => server.end());
  server.gone.then(() => {
    if (!response.writableEnded) refuse(response, 502, -32603, 'the server ended without an answer', message.id);
  });
  server.send(message);
}

/** A session of 2025-11-25. */
class Session {
  constructor() {
    this.id = randomUUID();
    this.waiting = new Map();
    this.server = new Server((message) => this.#route(message));
  }

  ask(message, reply, headers) {
    this.waiting.set(JSON.stringify(message.id), { reply, headers, token: message.params?._meta?.progressToken });
    this.server.send(message);
  }

  #route(message) {
    if (message.method === undefined) {
      const key = JSON.stringify(message.id);
      const waiting = this.waiting.get(key);
      this.waiting.delete(key);
      return waiting?.reply.finish(message, waiting.headers);
    }
    const { progressToken, data } = message.params ?? {};
    const about = [...this.waiting].find(([key, w]) =>
      progressToken === undefined ? key === JSON.stringify(data?.requestId) : w.token === progressToken);
    // What belongs to no request in particular goes along with any that is open.
    (about ?? [...this.waiting].at(-1))?.[1].reply.notify(message);
  }
}

const sessions = new Map();

function legacy(request, response, message) {
  let session = sessions.get(request.headers['mcp-session-id']);
  const begins = message.method === 'initialize';
  if (!session && begins) session = new Session();
  if (!session) {
    const unknown = request.headers['mcp-session-id'] !== undefined;
    return refuse(response, unknown ? 404 : 400, -32600, unknown ? 'no such session' : 'initialize first', message.id);
  }
  if (message.id === undefined) {
    session.server.send(message);
    return response.writeHead(202).end();
  }
  const reply = new Reply(response, accepts(request, 'text/event-stream'));
  if (begins) sessions.set(session.id, session);
  session.ask(message, reply, begins ? { 'Mcp-Session-Id': session.id } : {});
}

function accepts(request, type) {
  return (request.headers.accept ?? '').includes(type);
}

/** Whether the request was meant for us: a page that made its name resolve to this machine says so in both headers. */
function isLocal(request, port) {
  const hosts = ['localhost', '127.0.0.1', '[::1]'].flatMap((h) => [h, `${h}:${port}`]);
  const { host, origin } = request.headers;
  if (!hosts.includes((host ?? '').toLowerCase())) return false;
  if (origin === undefined) return true;
  try {
    return hosts.includes(new URL(origin).host);
  } catch {
    return false;
  }
}

async function body(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > MAX_BODY) throw new Error('too large');
    parts.push(part);
  }
  return JSON.parse(Buffer.concat(parts).toString('utf8'));
}

async function serve(request, response) {
  if (!isLocal(request, http.address().port)) return refuse(response, 403, -32600, 'only for this machine (Host or Origin)');
  if (new URL(request.url, 'http://localhost').pathname !== '/mcp') return response.writeHead(404).end();
  if (request.method === 'DELETE' && era === 'legacy') {
    const session = sessions.get(request.headers['mcp-session-id']);
    sessions.delete(request.headers['mcp-session-id']);
    await session?.server.end();
    return response.writeHead(session ? 200 : 404).end();
  }
  // There is no stream of its own: everything the server says belongs to a request.
  if (request.method !== 'POST') return response.writeHead(405, { Allow: era === 'legacy' ? 'POST, DELETE' : 'POST' }).end();
  let message;
  try {
    message = await body(request);
  } catch (error) {
    return refuse(response, 400, -32700, `the body is not JSON: ${error.message}`);
  }
  return era === 'legacy' ? legacy(request, response, message) : modern(request, response, message);
}

const http = createServer((request, response) => {
  serve(request, response).catch((error) => {
    console.error(error);
    if (!response.headersSent) refuse(response, 500, -32603, String(error));
    else response.end();
  });
});
http.listen(0, '127.0.0.1', () => console.log(JSON.stringify({ url: `http://127.0.0.1:${http.address().port}/mcp` })));
process.stdin.resume().on('end', async () => {
  http.close();
  http.closeAllConnections();
  await Promise.all([...Server.all].map((server) => server.end()));
  process.exit(0);
});
