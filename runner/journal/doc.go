// Package journal is an append-only file of entries that survives the death of its writer at any byte.
//
// One line is one entry, a JSON object in exactly this form:
//
//	{"seq":1,"time":"2026-01-02T03:04:05.678Z","kind":"lease_opened","v":1,"body":{…},"crc":"9a3b0c1d"}
//
// seq counts from 1 without a gap over the whole file, time is RFC 3339 in UTC, v is the Schema of the writer, body is
// whatever JSON value the caller gave. crc is the CRC-32C (Castagnoli) of all bytes of the line before the text
// `,"crc":"`, as eight lower case hexadecimal digits; the line ends with `"}` and a newline right after it. This frame
// stays the same in later schemas, so that every version can tell a newer journal from a damaged one.
//
// There is one writer at a time, held by a lock on a file beside the journal; any number of readers need no lock. An
// appended entry is on the disk before Append returns. What a writer that died left of its last line is cut and kept
// aside; damage anywhere else is refused, because what was recorded there cannot be known.
//
// The package knows bytes and sequence. What the entries mean is known by package record, the only one that enters.
package journal
