package supervise

import (
	"time"

	"cellharness/shared"
)

// sampleEvery is the time between two looks at the process tree, or the directory, of a command with a limit that is
// sampled. A look at a tree costs a few milliseconds on a machine with some hundred processes; less often would let
// more escape.
const sampleEvery = 250 * time.Millisecond

// What escapes even where a limit is enforced, because it is not the command that does it.
const (
	byOthers  = "what services of this machine do for the command when asked over a socket is not held"
	leaves    = "a command that moves itself into another control group escapes"
	unmetered = "what is allocated and freed between two samples escapes"
)

// choices lists the mechanisms for each dimension, the best one first. The last is the only one where nothing has to
// be tried, or where nothing can be had. superuser tells whether commands run as root.
func choices(superuser bool) map[shared.Dimension][]held {
	enforced := func(by mechanism, mechanism, reason string) held {
		return held{by, shared.Support{Level: shared.LevelEnforced, Mechanism: mechanism, Reason: reason}}
	}
	partly := func(by mechanism, mechanism, reason string) held {
		return held{by, shared.Support{Level: shared.LevelBestEffort, Mechanism: mechanism, Reason: reason}}
	}
	group := func(file string, rest ...held) []held {
		return append([]held{
			enforced(byBoxedGroup, "control group ("+file+") that the command sees read-only, in namespaces of its own", byOthers),
			partly(byGroup, "control group ("+file+")", leaves+", and "+byOthers),
		}, rest...)
	}
	fileSize := []held{enforced(byRlimit, "RLIMIT_FSIZE", "")}
	if superuser {
		fileSize = []held{
			enforced(byBoxedLimit, "RLIMIT_FSIZE, in a user namespace without the right to raise it", byOthers),
			partly(byRlimit, "RLIMIT_FSIZE", "the superuser may raise it"),
		}
	}
	sample := " every " + sampleEvery.String()
	return map[shared.Dimension][]held{
		shared.DimensionWallTime: {enforced(bySupervisor, "supervisor with a deadline, process group, subreaper sweep, lifeline pipe", "")},
		shared.DimensionOutput:   {enforced(bySupervisor, "bytes counted while they are stored", "")},
		shared.DimensionMemory: group("memory limit without swap",
			partly(bySampling, "resident memory of the process tree, sampled"+sample, unmetered)),
		shared.DimensionProcesses: group("pids limit, threads included",
			partly(bySampling, "processes of the tree, counted"+sample, "what comes and goes between two samples escapes, and threads are not counted")),
		shared.DimensionCPU: group("cpu quota"),
		shared.DimensionDisk: {partly(bySampling, "blocks below the workspace, added up"+sample+", less often where that takes long",
			"what is written between two samples, to files that have no name any more, and elsewhere, escapes")},
		shared.DimensionFileSize: fileSize,
		shared.DimensionFilesystem: {
			enforced(byBox, "mount namespace that is read-only but for the workspace and a temporary directory", byOthers),
			partly(byFilter, "Landlock", "owner, mode, times and attributes of files outside can be changed, and "+byOthers),
		},
		shared.DimensionNetwork: {
			partly(byBox, "network namespace with a loopback interface only",
				"a Unix socket with a path that is opened outside while the command runs can be reached; those there before are hidden"),
			partly(byFilter, "seccomp and Landlock: Unix sockets only, not even loopback",
				"Unix sockets with a path can be reached"),
		},
		shared.DimensionProcessCleanup: {partly(bySupervisor, "subreaper sweep by the supervisor, then by the adapter",
			"a command that kills its supervisor and then the adapter escapes, unless a limit or isolation gave it namespaces of its own")},
	}
}
