import LeanBeam

/-!
# The worker program

    LEAN_PATH=<library>:<extension> lean [-M.. -T.. -s.. -j..] --run LeanBeamWorker.lean [-Dname=value ...] [uri]

This file is elaborated at every start, so it holds nothing but the call.
-/

def main : List String → IO UInt32 := LeanBeam.workerMain
