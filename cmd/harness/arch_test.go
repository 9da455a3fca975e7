package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The architecture is a table that a test reads: who may import whom, who may know which technology, and the few rules
// of the house that a compiler does not hold. Test files are free to import what they test with.

const (
	archModule = "cellharness"
	archRoot   = "../.." // of the module, from the folder of this test
)

// archRule is a row: a package, or with "/..." a package and everything below, and what is said about its imports.
type archRule struct {
	pkg     string
	imports []string
}

// archRuleFor returns the first row that covers the package.
func archRuleFor(rules []archRule, name string) (archRule, bool) {
	i := slices.IndexFunc(rules, func(r archRule) bool { return archCovers(r.pkg, name) })
	if i < 0 {
		return archRule{}, false
	}
	return rules[i], true
}

// archDirection says which packages of this module a package may import. The first row that covers it counts.
func archDirection() []archRule {
	return []archRule{
		{"shared", nil},
		{"shared/adapterpb", nil},
		{"shared/worktreepb", nil},
		{"shared/proto/...", nil},
		{"shared/...", []string{"shared/..."}},
		{"plugins/localworktree/worktree", nil},
		{"plugins/localworktree/files", []string{"shared"}},
		{"plugins/localworktree/supervise", []string{"shared"}},
		{"plugins/localworktree/...", []string{"shared/...", "plugins/localworktree/..."}},
		{"plugins/daytona/...", []string{"shared/...", "plugins/daytona/..."}},
		{"runner/plan", []string{"shared"}},
		{"runner/journal", nil},
		{"runner/stats", nil},
		{"runner/pluginhost", []string{"shared/...", "runner/..."}},
		{"runner/...", []string{"shared", "runner/..."}},
		{"cmd/...", []string{"shared/...", "runner/..."}},
		{"config/...", nil},
	}
}

// archNever says what a package must not reach, not even through others. The first row that covers it counts.
func archNever() []archRule {
	const (
		hcl      = "github.com/hashicorp/hcl/..."
		cty      = "github.com/zclconf/..."
		goPlugin = "github.com/hashicorp/go-plugin/..."
		grpc     = "google.golang.org/grpc/..."
		cobra    = "github.com/spf13/..."
	)
	return []archRule{
		{"runner/definition", []string{goPlugin, grpc, cobra}},
		{"runner/pluginhost", []string{hcl, cty, cobra}},
		{"runner/...", []string{hcl, cty, goPlugin, grpc, cobra}},
		{"plugins/localworktree/worktree", []string{hcl, cty, goPlugin, grpc, cobra}},
		{"plugins/localworktree/files", []string{hcl, cty, goPlugin, grpc, cobra}},
		{"plugins/localworktree/supervise", []string{hcl, cty, goPlugin, grpc, cobra}},
		{"plugins/...", []string{hcl, cty, cobra}},
		{"shared/...", []string{hcl, cty, cobra}},
	}
}

// archOnly says which packages alone may import something themselves.
func archOnly() map[string][]string {
	return map[string][]string{
		"os/exec": {
			"plugins/localworktree/worktree", "plugins/localworktree/supervise", "runner/pluginhost", "runner/secrets",
			"shared/adaptertest", "plugins/localworktree/worktree/gittest",
		},
		"testing": {"shared/adaptertest", "plugins/localworktree/worktree/gittest"},
		// Packages that test files alone import.
		archModule + "/shared/adaptertest":                     nil,
		archModule + "/plugins/localworktree/worktree/gittest": nil,
		"github.com/hashicorp/hcl/...":                         {"runner/definition"},
		"github.com/hashicorp/go-plugin/...":                   {"shared/wire", "shared/adaptertest", "runner/pluginhost"},
		"github.com/spf13/cobra":                               {"cmd/harness"},
		"os/signal":                                            {"cmd/harness", "shared/wire", "plugins/localworktree/supervise"},
	}
}

// archPackage is a package as go list tells it.
type archPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func archPackages(t *testing.T) []archPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Deps", "./...")
	list.Dir = archRoot
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var packages []archPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p archPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the answer of go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		t.Fatal("go list names no package")
	}
	return packages
}

func (p archPackage) name() string { return strings.TrimPrefix(p.ImportPath, archModule+"/") }

func archCovers(pattern, name string) bool {
	if stem, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == stem || strings.HasPrefix(name, stem+"/")
	}
	return pattern == name
}

func archCoveredBy(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return archCovers(p, name) })
}

func TestArch_ImportDirection(t *testing.T) {
	t.Parallel()
	for _, p := range archPackages(t) {
		rule, ok := archRuleFor(archDirection(), p.name())
		if !ok {
			t.Errorf("%s has no row in archDirection: say what it may import", p.name())
			continue
		}
		for _, imported := range p.Imports {
			own, ok := strings.CutPrefix(imported, archModule+"/")
			if ok && !archCoveredBy(rule.imports, own) {
				t.Errorf("%s imports %s; it may import %v", p.name(), own, rule.imports)
			}
		}
		if p.name() == "shared" && slices.ContainsFunc(p.Imports, func(s string) bool { return strings.Contains(s, ".") }) {
			t.Errorf("shared imports %v; it may import the standard library alone", p.Imports)
		}
	}
}

func TestArch_Technology(t *testing.T) {
	t.Parallel()
	for _, p := range archPackages(t) {
		rule, _ := archRuleFor(archNever(), p.name())
		for _, dep := range p.Deps {
			if archCoveredBy(rule.imports, dep) {
				t.Errorf("%s reaches %s, which it must not know", p.name(), dep)
			}
		}
		for technology, users := range archOnly() {
			for _, imported := range p.Imports {
				if archCovers(technology, imported) && !slices.Contains(users, p.name()) {
					t.Errorf("%s imports %s; only %v may", p.name(), imported, users)
				}
			}
		}
	}
}

func TestArch_PackageNames(t *testing.T) {
	t.Parallel()
	idle := []string{"util", "utils", "common", "misc", "types", "models", "helpers"}
	for _, p := range archPackages(t) {
		if slices.Contains(idle, path.Base(p.ImportPath)) {
			t.Errorf("%s is named after nothing that it knows", p.name())
		}
	}
}

// archFile is one parsed source file.
type archFile struct {
	name string // relative to the root of the module
	ast  *ast.File
}

func (f archFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// archFiles parses every source file of the module, those of other operating systems too.
func archFiles(t *testing.T) (*token.FileSet, []archFile) {
	t.Helper()
	fset := token.NewFileSet()
	var files []archFile
	err := filepath.WalkDir(archRoot, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return archSkip(name, entry.Name())
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(archRoot, name)
		files = append(files, archFile{name: filepath.ToSlash(rel), ast: parsed})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fset, files
}

// archSkip keeps out of what is no package of this module, by the rules of the go command.
func archSkip(dir, base string) error {
	if dir == archRoot {
		return nil
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	if err == nil || base == "testdata" || base == "bin" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	return nil
}

func TestArch_OnePackageComment(t *testing.T) {
	t.Parallel()
	_, files := archFiles(t)
	comments := map[string][]string{}
	for _, f := range files {
		dir := path.Dir(f.name)
		if f.isTest() || ast.IsGenerated(f.ast) {
			continue
		}
		if comments[dir] == nil {
			comments[dir] = []string{}
		}
		if f.ast.Doc != nil {
			comments[dir] = append(comments[dir], f.name)
		}
	}
	for dir, in := range comments {
		if len(in) != 1 {
			t.Errorf("%s has %d package comments, want one: %v", dir, len(in), in)
		}
	}
}

func TestArch_ExportedNamesAreDocumented(t *testing.T) {
	t.Parallel()
	fset, files := archFiles(t)
	for _, f := range files {
		if f.isTest() || ast.IsGenerated(f.ast) {
			continue
		}
		for _, decl := range f.ast.Decls {
			for _, name := range archUndocumented(decl) {
				t.Errorf("%s: %s has no comment", fset.Position(decl.Pos()), name)
			}
		}
	}
}

// archUndocumented returns the exported names of a declaration that have no comment of their own or of their group.
func archUndocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && archReceiverExported(d) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		var names []string
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if s.Doc == nil && s.Comment == nil && n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
		return names
	}
	return nil
}

// archReceiverExported tells whether a reader of the documentation sees the method, or function, at all.
func archReceiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		exported = exported || (ok && id.IsExported())
		return !ok
	})
	return exported
}

func TestArch_NoInit(t *testing.T) {
	t.Parallel()
	fset, files := archFiles(t)
	for _, f := range files {
		if ast.IsGenerated(f.ast) {
			continue
		}
		for _, decl := range f.ast.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				t.Errorf("%s: work is done by whoever calls, not by being imported", fset.Position(d.Pos()))
			}
		}
	}
}

// Whoever exits skips the clean-up of everybody above, so it happens at the top only. The fake adapter does it on
// purpose.
func TestArch_ExitAtTheTopOnly(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`^(cmd/harness|plugins/[^/]+|shared/wire|shared/adaptertest)/[^/]+$`)
	exits := regexp.MustCompile(`^(os\.Exit|log\.Fatal(f|ln)?|syscall\.Exit)$`)
	fset, files := archFiles(t)
	for _, f := range files {
		if f.isTest() || allowed.MatchString(f.name) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && exits.MatchString(pkg.Name+"."+sel.Sel.Name) {
				t.Errorf("%s: return an error instead of leaving the process", fset.Position(n.Pos()))
			}
			return true
		})
	}
}

func TestArch_ModuleReplacesNothing(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(archRoot, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^\s*replace\b`).Match(text) {
		t.Error("go.mod replaces a module, so that whoever depends on this one builds something else")
	}
}
