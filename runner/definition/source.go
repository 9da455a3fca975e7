package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"

	"cellharness/runner/plan"
)

// MaxFile is the most bytes that one file of a definition may have.
const MaxFile = 8 << 20

// source is one file of the definition.
type source struct {
	name   string // as the user named it; shown in messages
	dir    string // absolute; what the file's own relative paths start from
	bytes  []byte
	file   *hcl.File // nil where it could not be parsed at all
	broken bool      // it has syntax errors, so what it lacks says nothing
}

func isJSON(name string) bool { return strings.HasSuffix(name, ".json") }

func isDefinition(name string) bool {
	return strings.HasSuffix(name, ".hcl") || strings.HasSuffix(name, ".hcl.json")
}

// readSources finds, reads and parses the files of the definition.
func (l *loader) readSources(paths []string) {
	if len(paths) == 0 {
		l.fail(nil, "No definition", "Name a file or a directory of *.hcl files.")
		return
	}
	seen := map[string]bool{}
	for i, path := range paths {
		files, dir, err := definitionFiles(path)
		if err != nil {
			l.fail(nil, "Definition cannot be read", err.Error())
			continue
		}
		if i == 0 {
			l.root = dir
		}
		for _, name := range files {
			abs, err := filepath.Abs(name)
			if err != nil {
				l.fail(nil, "Definition cannot be read", fmt.Sprintf("%s: %v", name, err))
				continue
			}
			if seen[abs] {
				continue
			}
			seen[abs] = true
			l.readSource(name, filepath.Dir(abs))
		}
	}
}

// definitionFiles returns the files that path stands for and the absolute directory they lie in.
func definitionFiles(path string) (files []string, dir string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("there is no file or directory %s", path)
	}
	if err != nil {
		return nil, "", err
	}
	if !info.IsDir() {
		return []string{filepath.Clean(path)}, filepath.Dir(abs), nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		if !e.IsDir() && isDefinition(e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, "", fmt.Errorf("the directory %s holds no file that ends in .hcl or .hcl.json", path)
	}
	sort.Strings(files)
	return files, abs, nil
}

func (l *loader) readSource(name, dir string) {
	src, err := readBounded(name, MaxFile)
	if err != nil {
		l.fail(&hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "File cannot be read", err.Error())
		return
	}
	s := &source{name: name, dir: dir, bytes: src}
	l.sources[name] = s
	l.order = append(l.order, s)
	if d := checkNesting(name, src); d != nil {
		s.broken = true
		l.diags = append(l.diags, d)
		return
	}
	file, diags := parse(name, src)
	s.file = file
	s.broken = diags.HasErrors()
	l.diags = append(l.diags, syntaxErrors(s, diags)...)
	l.checkDuplicateKeys(s)
}

// readBounded reads a whole file and refuses one of more than limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	// A named pipe would be waited for without end.
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	src, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(src)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MiB, the most that is read", name, limit>>20)
	}
	return src, nil
}

func parse(name string, src []byte) (*hcl.File, hcl.Diagnostics) {
	if isJSON(name) {
		return json.Parse(src, name)
	}
	return hclsyntax.ParseConfig(src, name, hcl.InitialPos)
}

// planSources lists the files with their digests, in the order in which they were read.
func (l *loader) planSources() []plan.Source {
	var out []plan.Source
	for _, s := range l.order {
		sum := sha256.Sum256(s.bytes)
		out = append(out, plan.Source{Path: s.name, SHA256: hex.EncodeToString(sum[:])})
	}
	return out
}

// checkDuplicateKeys reports object values that set one key twice: the language lets the last one win.
func (l *loader) checkDuplicateKeys(s *source) {
	if s.file == nil {
		return
	}
	body, ok := s.file.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	// The visitor itself never fails.
	_ = hclsyntax.VisitAll(body, func(node hclsyntax.Node) hcl.Diagnostics {
		object, ok := node.(*hclsyntax.ObjectConsExpr)
		if !ok {
			return nil
		}
		first := map[string]hcl.Range{}
		for _, item := range object.Items {
			if len(item.KeyExpr.Variables()) > 0 {
				continue
			}
			key, diags := item.KeyExpr.Value(nil)
			text, err := toText(key)
			if diags.HasErrors() || err != nil {
				continue
			}
			place := item.KeyExpr.Range()
			if before, ok := first[text]; ok {
				l.fail(&place, "Key set twice", fmt.Sprintf("The key %q is set already at %s; one of the two would be lost.", text, at(before)))
				continue
			}
			first[text] = place
		}
		return nil
	})
}

// at shows a place the way editors take it.
func at(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }
