package proto_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

// generateTimeout bounds one generator. The first run links the generator, which takes most of it.
const generateTimeout = 5 * time.Minute

var sources = []string{
	"harness/adapter/v1/adapter.proto",
	"harness/worktree/v1/worktree.proto",
}

func TestGenerated(t *testing.T) {
	t.Parallel()
	files := compile(t)
	generated := map[string]string{"shared/proto/wire.lock": lock(files)}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		for name, text := range generate(t, tool, files) {
			generated[name] = text
		}
	}
	for _, f := range files {
		name, text := packageComment(f)
		generated[name] = text
	}
	for name, want := range generated {
		check(t, name, want)
	}
	checkNothingElse(t, generated)
}

// compile reads and links the sources, with their comments.
func compile(t *testing.T) linker.Files {
	t.Helper()
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(t.Context(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// generate runs one generator over files and returns what it wrote, by path inside the module.
func generate(t *testing.T, tool string, files linker.Files) map[string]string {
	t.Helper()
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources,
		Parameter:      proto.String("module=cellharness"),
		ProtoFile:      withImports(files),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), generateTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Stdin = bytes.NewReader(request)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go tool %s: %v\n%s", tool, err, &stderr)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		t.Fatal(err)
	}
	if response.Error != nil {
		t.Fatalf("go tool %s: %s", tool, response.GetError())
	}
	written := map[string]string{}
	for _, f := range response.File {
		written[f.GetName()] = f.GetContent()
	}
	return written
}

// withImports returns the descriptors of files and of all they import, each after its own imports.
func withImports(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protodesc.ToFileDescriptorProto(f))
	}
	for _, f := range files {
		add(f)
	}
	return all
}

// packageComment gives the package of the generated code the comment that the generators do not write.
func packageComment(f linker.File) (name, text string) {
	goPackage := f.Options().(*descriptorpb.FileOptions).GetGoPackage()
	text = fmt.Sprintf("// Code generated from %s by the test of shared/proto. DO NOT EDIT.\n\n"+
		"// Package %s is the generated code of the package %s. Only shared/wire translates between it and the types of\n"+
		"// shared.\npackage %s\n", f.Path(), filepath.Base(goPackage), f.Package(), filepath.Base(goPackage))
	return strings.TrimPrefix(goPackage, "cellharness/") + "/doc.go", text
}

// lock returns one sorted line for each field, enum value and method.
func lock(files linker.Files) string {
	var lines []string
	for _, f := range files {
		for i := range f.Services().Len() {
			lines = append(lines, methodLines(f.Services().Get(i))...)
		}
		lines = append(lines, enumLines(f.Enums())...)
		lines = append(lines, messageLines(f.Messages())...)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n") + "\n"
}

func methodLines(s protoreflect.ServiceDescriptor) []string {
	var lines []string
	stream := map[bool]string{true: "stream "}
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		lines = append(lines, fmt.Sprintf("%s rpc (%s%s) returns (%s%s)", m.FullName(),
			stream[m.IsStreamingClient()], m.Input().FullName(), stream[m.IsStreamingServer()], m.Output().FullName()))
	}
	return lines
}

func enumLines(enums protoreflect.EnumDescriptors) []string {
	var lines []string
	for i := range enums.Len() {
		e := enums.Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			lines = append(lines, fmt.Sprintf("%s.%s value %d", e.FullName(), v.Name(), v.Number()))
		}
	}
	return lines
}

func messageLines(messages protoreflect.MessageDescriptors) []string {
	var lines []string
	for i := range messages.Len() {
		m := messages.Get(i)
		for j := range m.Fields().Len() {
			lines = append(lines, fieldLine(m.Fields().Get(j)))
		}
		lines = append(lines, enumLines(m.Enums())...)
		lines = append(lines, messageLines(m.Messages())...)
	}
	return lines
}

func fieldLine(f protoreflect.FieldDescriptor) string {
	kind := f.Kind().String()
	if f.Message() != nil {
		kind = string(f.Message().FullName())
	}
	if f.Enum() != nil {
		kind = string(f.Enum().FullName())
	}
	line := fmt.Sprintf("%s field %d %s %s", f.FullName(), f.Number(), f.Cardinality(), kind)
	if o := f.ContainingOneof(); o != nil {
		line += " oneof " + string(o.Name())
	}
	return line
}

// check compares a file of the module with what it should be, or writes it.
func check(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join("..", "..", filepath.FromSlash(name))
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale; run: go test ./shared/proto -run TestGenerated -update\n(-want +got)\n%s", name, diff)
	}
}

// checkNothingElse holds that the folders of generated code hold nothing written by hand.
func checkNothingElse(t *testing.T, generated map[string]string) {
	t.Helper()
	for _, dir := range []string{"shared/adapterpb", "shared/worktreepb"} {
		entries, err := os.ReadDir(filepath.Join("..", "..", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if _, ok := generated[dir+"/"+e.Name()]; !ok {
				t.Errorf("%s/%s is not generated", dir, e.Name())
			}
		}
	}
}
