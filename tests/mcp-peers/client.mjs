// The official client against the real server on real Lean: what an agent's host does, in one of the ways a host may begin.
//
//   node client.mjs MODE PROJECT COMMAND [ARG…]
//
// MODE is `legacy` (2025-11-25), `auto` (the client probes), or `pin` (2026-07-28 or nothing). PROJECT holds `Good.lean` and `Warn.lean`.
// Says what it checked, one line each; the first thing that is not as it must be ends it with status 1.
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const MODERN = '2026-07-28';
const LEGACY = '2025-11-25';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
// Lean may be started cold on a busy machine.
const PATIENCE = { timeout: 300_000 };

const [mode, root, command, ...args] = process.argv.slice(2);
const modern = mode !== 'legacy';
const workspace = { root };

let checks = 0;
function checked(what) {
  checks += 1;
  console.log(`ok ${checks} ${mode}: ${what}`);
}

/** A successful call; what people and programs are shown must be the same. */
async function call(client, name, input, options = {}, meta = undefined) {
  const params = { name, arguments: input, ...(meta ? { _meta: meta } : {}) };
  const result = await client.callTool(params, { ...PATIENCE, ...options });
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent, `${name}: text and structure differ`);
  return result;
}

async function good(...input) {
  const result = await call(...input);
  assert.equal(result.isError, false, result.content[0].text);
  return result.structuredContent;
}

const transport = new StdioClientTransport({ command, args, env: process.env, stderr: 'pipe', cwd: root });
let stderr = '';
transport.stderr.on('data', (chunk) => (stderr += chunk));
const client = new Client(
  { name: 'mcp-peers', version: '1.0.0' },
  { versionNegotiation: { mode: mode === 'pin' ? { pin: MODERN } : mode } },
);
const problems = [];
client.onerror = (error) => problems.push(String(error));
const logs = [];
client.setNotificationHandler('notifications/message', ({ params }) => void logs.push(params));

await client.connect(transport, PATIENCE);
const child = transport._process;
const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));

assert.equal(client.getNegotiatedProtocolVersion(), modern ? MODERN : LEGACY);
assert.equal(client.getProtocolEra(), modern ? 'modern' : 'legacy');
assert.equal(client.getServerVersion().name, 'lean-beam-mcp');
assert.ok(client.getServerCapabilities().tools && client.getServerCapabilities().logging);
checked(`negotiated ${client.getNegotiatedProtocolVersion()}`);

if (modern) {
  const discovered = await client.discover(PATIENCE);
  assert.deepEqual(discovered.supportedVersions, [MODERN]);
  assert.ok(discovered.ttlMs > 0 && discovered.cacheScope === 'public');
  checked('discovery');
} else {
  await client.ping(PATIENCE);
  checked('ping');
}

const { tools } = await client.listTools(undefined, PATIENCE);
const names = tools.map((tool) => tool.name);
for (const name of ['beam_version', 'lean_sync', 'lean_run_at', 'lean_goals', 'lean_drop_workspace']) assert.ok(names.includes(name), name);
assert.ok(tools.every((tool) => tool.inputSchema.type === 'object' && tool.description.length > 20));
checked(`${tools.length} tools`);

const version = await good(client, 'beam_version', {});
assert.equal(version.name, 'lean-beam-mcp');
assert.equal(version.runtime_active, false);
checked('beam_version starts nothing');

const words = { title: 'A peer', summary: 's', reproduction: 'r', expected: 'e', actual: 'a', workspace };
const open = await good(client, 'beam_feedback_report', { ...words, include_collected: true });
assert.deepEqual(open.workspace, workspace);
assert.equal(open.collected.stats, null);
assert.ok(open.markdown.startsWith('# A peer\n') && open.collection_warnings.length > 0, open.markdown);
const closed = await good(client, 'beam_feedback_report', { ...words, confidential: true });
assert.ok(!JSON.stringify(closed).includes(root), 'a confidential report names the project');
assert.equal((await good(client, 'beam_version', {})).runtime_active, false);
checked('beam_feedback_report starts nothing, and tells nothing when it must not');

const progress = [];
const synced = await good(client, 'lean_sync', { workspace, path: 'Good.lean' }, { onprogress: (p) => progress.push(p) });
assert.equal(synced.readiness.save_ready, true, JSON.stringify(synced));
assert.equal(synced.document_progress.done, true);
assert.ok(progress.length >= 2, `progress: ${JSON.stringify(progress)}`);
progress.forEach((p, n) => assert.equal(p.progress, n + 1, JSON.stringify(progress)));
assert.equal(logs.filter((log) => log.logger === 'beam.status').length, 0, 'a status although there was progress');
checked(`lean_sync with ${progress.length} progress notifications`);

const probe = { workspace, path: 'Good.lean', version: synced.version, line: 1, character: 2 };
const proved = await good(client, 'lean_run_at', { ...probe, text: 'exact ⟨hp, hq⟩' });
assert.equal(proved.success, true, JSON.stringify(proved));
const failed = await good(client, 'lean_run_at', { ...probe, text: 'exact hp' });
assert.equal(failed.success, false, 'a wrong proof is a result, not an error');
assert.ok(failed.messages.length > 0);
checked('lean_run_at proves, and says what does not');

const stale = await call(client, 'lean_run_at', { ...probe, version: synced.version + 7, text: 'skip' });
assert.equal(stale.isError, true);
assert.equal(stale.structuredContent.code, 'contentModified');
const unknownKey = await call(client, 'lean_update', { workspace, path: 'Good.lean', root });
assert.equal(unknownKey.structuredContent.code, 'invalidInput');
await assert.rejects(call(client, 'no_such_tool', {}), (error) => error.code === -32602);
checked('errors of tools and of the protocol');

logs.length = 0;
const all = { workspace, path: 'Warn.lean', diagnostic_scope: 'all' };
if (modern) {
  await good(client, 'lean_sync', all);
  assert.deepEqual(logs, [], 'a modern request without a level gets no logs');
  await good(client, 'lean_refresh', all, {}, { [LOG_LEVEL]: 'debug' });
} else {
  await client.setLoggingLevel('error', PATIENCE);
  await good(client, 'lean_sync', all);
  assert.deepEqual(logs, [], 'below the level');
  await client.setLoggingLevel('debug', PATIENCE);
  await good(client, 'lean_refresh', all);
}
const diagnostics = logs.filter((log) => log.logger === 'lean.diagnostic');
assert.ok(diagnostics.some((log) => log.level === 'warning' && log.data.path === 'Warn.lean'), JSON.stringify(logs));
checked(`${diagnostics.length} diagnostics as logs, when asked for`);

const gone = new AbortController();
const endless = client.callTool(
  { name: 'lean_run_at', arguments: { ...probe, line: 0, character: 0, text: '#eval (do while true do IO.sleep 10 : IO Unit)' } },
  { ...PATIENCE, signal: gone.signal },
);
// Long enough for it to run.
setTimeout(() => gone.abort(), 2_000);
await assert.rejects(endless, undefined, 'the endless call ended by itself');
const after = await good(client, 'lean_run_at', { ...probe, text: 'exact ⟨hp, hq⟩' });
assert.equal(after.success, true);
checked('a call that is given up is gone, and the next one works');

const dropped = await good(client, 'lean_drop_workspace', { workspace });
assert.equal(dropped.dropped, true);
checked('lean_drop_workspace');

const closing = Date.now();
await client.close();
const end = await ended;
const took = Date.now() - closing;
// The client sends SIGTERM when the end of the input was not enough within two seconds.
assert.deepEqual(end, { code: 0, signal: null }, `after ${took} ms`);
assert.equal(stderr, '', 'the server wrote to stderr');
assert.deepEqual(problems, [], 'the client complained');
checked('teardown: the end of the input was enough, and stderr stayed empty');
