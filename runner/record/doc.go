// Package record is the folder of a run: what was asked, what happened, what was kept.
//
// The journal is the truth. results.jsonl and the result.json files are derived from it: they are written beside it
// for people and tools, and rebuilt byte for byte when they are lost, cut or edited. Everything else (run.json,
// plan.json and its blobs, outputs, artifacts, patches) is evidence, whose digests the results hold.
//
//	RUN/run.json plan.json blobs/SHA256   what was asked
//	RUN/journal.jsonl                     the truth, one writer at a time
//	RUN/results.jsonl events.jsonl
//	RUN/adapters/                         a log for each adapter instance
//	RUN/cells/KEY/ATTEMPT/                result.json, outputs, patch, artifacts
//
// A Folder is written by one process (Create, Resume) and read by any number (Open). The engine writes through it; the
// command, the summary and the report read from it. It makes no decision about cells.
package record
