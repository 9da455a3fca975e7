package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxPlainPath keeps the folder of a run below the PATH_MAX of 1024 bytes of macOS.
	maxPlainPath = 512
	// maxPlainName is NAME_MAX, the longest component of every file system in use.
	maxPlainName = 255
	// maxStem is how much of a name stays readable beside a hash.
	maxStem = 60
)

// artifactNames gives artifacts names that differ from each other on every file system, by what they are: a file or a
// directory. The keys are folded.
type artifactNames map[string]claim

type claim uint8

const (
	claimFile claim = iota + 1
	claimDir
)

// claim returns the name for the artifact at path, relative to the directory of artifacts.
func (n artifactNames) claim(artifact string) string {
	if isPlain(artifact) && n.free(artifact) {
		n.take(artifact)
		return artifact
	}
	name := hashedName(artifact)
	for try := 2; !n.free(name); try++ {
		name = fmt.Sprintf("%s-%d", hashedName(artifact), try)
	}
	n.take(name)
	return name
}

// fold maps names that some file system takes for one to one key: case as on Windows and macOS, composed and
// decomposed letters as on macOS.
func fold(name string) string { return strings.ToLower(norm.NFC.String(name)) }

func (n artifactNames) free(name string) bool {
	key := fold(name)
	if n[key] != 0 {
		return false
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if n[dir] == claimFile {
			return false
		}
	}
	return true
}

func (n artifactNames) take(name string) {
	key := fold(name)
	n[key] = claimFile
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		n[dir] = claimDir
	}
}

// isPlain tells whether the path may be a name in the folder of a run as it is: on every file system, in every
// terminal and in an archive.
func isPlain(artifact string) bool {
	if len(artifact) > maxPlainPath || !utf8.ValidString(artifact) {
		return false
	}
	for _, part := range strings.Split(artifact, "/") {
		if !isPlainPart(part) {
			return false
		}
	}
	return true
}

func isPlainPart(part string) bool {
	if part == "" || len(part) > maxPlainName || strings.Trim(part, ".") == "" {
		return false
	}
	if last := part[len(part)-1]; last == '.' || last == ' ' || part[0] == ' ' {
		return false // Windows drops them
	}
	return strings.IndexFunc(part, func(r rune) bool { return !isPlainRune(r) }) < 0 && !isReserved(part)
}

func isPlainRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune("._-+=@~, ", r)
}

// isReserved tells of names that mean something to a tool that walks the folder: devices on Windows, a repository to
// git.
func isReserved(part string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(part), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	if len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) {
		return '0' <= stem[3] && stem[3] <= '9'
	}
	return strings.EqualFold(part, ".git")
}

// hashedName is what is readable of the last component, and a hash of the whole path before the extension.
func hashedName(artifact string) string {
	sum := sha256.Sum256([]byte(artifact))
	clean := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && isPlainRune(r) && r != ' ' {
			return r
		}
		return '_'
	}, artifact[strings.LastIndexByte(artifact, '/')+1:])
	ext := path.Ext(clean)
	if len(ext) > 10 || ext == clean {
		ext = ""
	}
	stem := strings.TrimSuffix(clean, ext)
	stem = strings.TrimLeft(stem[:min(len(stem), maxStem)], ".-")
	return fmt.Sprintf("%s-%s%s", stem, hex.EncodeToString(sum[:8]), strings.TrimRight(ext, "."))
}
