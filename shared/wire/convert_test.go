package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

// roundTrip is one Go type with its wire form.
type roundTrip struct {
	name string
	run  func(t *testing.T, b *breach) (want, got any, m proto.Message)
}

// trip fills a G, converts it there, over bytes, and back.
func trip[G any, M proto.Message](name string, to func(*breach, G) M, from func(*breach, M) G) roundTrip {
	return roundTrip{name, func(t *testing.T, b *breach) (any, any, proto.Message) {
		want := filled[G](t)
		m := to(b, want)
		return want, from(b, reparsed(t, m)), m
	}}
}

// reparsed sends m over bytes, as the wire does.
func reparsed[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out.(M)
}

func roundTrips() []roundTrip {
	return []roundTrip{
		trip("HostInfo", func(_ *breach, h shared.HostInfo) *pb.NegotiateRequest { return toHost(h) },
			func(_ *breach, m *pb.NegotiateRequest) shared.HostInfo { return fromHost(m) }),
		trip("Description", toDescription, fromDescription),
		trip("Configuration", func(_ *breach, c shared.Configuration) *pb.ConfigureRequest { return toConfiguration(c) },
			fromConfiguration),
		trip("Configured", toConfigured, fromConfigured),
		trip("ProvisionSpec", func(_ *breach, s shared.ProvisionSpec) *pb.ProvisionStart { return toProvisionSpec(s) },
			fromProvisionSpec),
		trip("Provisioned", toProvisioned, fromProvisioned),
		trip("Found", func(_ *breach, f shared.Found) *pb.FindResponse { return toFound(f) }, fromFound),
		trip("TeardownReport", toTeardownReport, fromTeardownReport),
		trip("DrainReport", func(_ *breach, r shared.DrainReport) *pb.DrainResponse { return toDrainReport(r) },
			func(_ *breach, m *pb.DrainResponse) shared.DrainReport { return fromDrainReport(m) }),
		trip("Seed", func(_ *breach, s shared.Seed) *pb.Seed { return toSeed(s) }, fromSeed),
		trip("Result", toResult, fromResult),
		trip("Collection", toCollection, fromCollection),
		trip("Artifact", toArtifact, fromArtifact),
		trip("Error", func(b *breach, e shared.Error) *pb.Error { return toError(b, &e) },
			func(b *breach, m *pb.Error) shared.Error { return *fromError(b, m) }),
		{"Cell", cellTrip},
		{"CollectSpec", collectSpecTrip},
	}
}

// handleAnd is what a request for a workspace holds.
type handleAnd[G any] struct {
	Handle shared.Handle
	Value  G
}

func cellTrip(t *testing.T, b *breach) (want, got any, m proto.Message) {
	in := filled[handleAnd[shared.Cell]](t)
	start := toCell(b, in.Handle, in.Value)
	if start.GetSeeds() != int64(len(in.Value.Seeds)) {
		t.Errorf("%d seeds are announced, want %d", start.GetSeeds(), len(in.Value.Seeds))
	}
	in.Value.Seeds = nil // they are messages of their own
	handle, cell := fromCell(b, reparsed(t, start))
	return in, handleAnd[shared.Cell]{handle, cell}, start
}

func collectSpecTrip(t *testing.T, b *breach) (want, got any, m proto.Message) {
	in := filled[handleAnd[shared.CollectSpec]](t)
	request := toCollectSpec(in.Handle, in.Value)
	handle, spec := fromCollectSpec(b, reparsed(t, request))
	return in, handleAnd[shared.CollectSpec]{handle, spec}, request
}

// TestRoundTrip holds that no field of either form is forgotten by a converter.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tc := range roundTrips() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b breach
			want, got, m := tc.run(t, &b)
			if b.err != nil {
				t.Fatal(b.err)
			}
			if diff := cmp.Diff(want, got, sameValues()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkAllSet(t, m.ProtoReflect())
		})
	}
}

// sameValues compares secrets by value and leaves out how a content is read.
func sameValues() cmp.Option {
	return cmp.Options{
		cmp.Comparer(func(a, b shared.Secret) bool { return a.Reveal() == b.Reveal() }),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Open" }, cmp.Ignore()),
	}
}

// checkAllSet fails for every field of m, and of the messages in it, that has no value.
func checkAllSet(t *testing.T, m protoreflect.Message) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// It says where an error stands in the stream, which the error itself does not know.
		if f.FullName() == "harness.adapter.v1.Error.final" {
			continue
		}
		if !m.Has(f) {
			t.Errorf("%s is not set", f.FullName())
			continue
		}
		if f.Message() == nil || strings.HasPrefix(string(f.Message().FullName()), "google.") {
			continue
		}
		if !f.IsList() {
			checkAllSet(t, m.Get(f).Message())
			continue
		}
		for j := range m.Get(f).List().Len() {
			checkAllSet(t, m.Get(f).List().Get(j).Message())
		}
	}
}

func TestRoundTrip_Empty(t *testing.T) {
	t.Parallel()
	var b breach
	m := toCapabilities(&b, shared.Capabilities{})
	got := fromCapabilities(&b, reparsed(t, m))
	if diff := cmp.Diff(shared.Capabilities{}, got); diff != "" || b.err != nil {
		t.Errorf("the zero capabilities came back as (-want +got) %s, error %v", diff, b.err)
	}
	limits := fromLimits(&b, toLimits(&b, shared.Limits{}))
	if limits != (shared.Limits{}) || b.err != nil {
		t.Errorf("no limits came back as %+v, error %v", limits, b.err)
	}
	if c := fromCollection(&b, reparsed(t, toCollection(&b, shared.Collection{}))); c.Diff != nil || c.DiffFromBase != nil {
		t.Errorf("a collection without a patch came back as %+v", c)
	}
}

func TestRoundTrip_Bytes(t *testing.T) {
	t.Parallel()
	const odd = "a\xff\x00\n\\b"
	var b breach
	h := shared.Handle{Resource: odd, Root: odd, State: []byte(odd)}
	cell := shared.Cell{
		Phase: shared.PhaseCell, Kind: shared.ExecCell, Argv: []string{odd, ""}, Env: map[string]string{odd: odd},
		SecretEnv: map[string]shared.Secret{odd: shared.NewSecret(odd)},
	}
	gotHandle, gotCell := fromCell(&b, reparsed(t, toCell(&b, h, cell)))
	if diff := cmp.Diff(handleAnd[shared.Cell]{h, cell}, handleAnd[shared.Cell]{gotHandle, gotCell}, sameValues()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	begin := toArtifactBegin(&b, shared.ArtifactFile, odd)
	if _, path := fromArtifactBegin(&b, reparsed(t, begin)); path != odd {
		t.Errorf("the path came back as %q, want %q", path, odd)
	}
	notices := fromNotices(&b, []*pb.Notice{reparsed(t, toNotices(&b, []shared.Notice{
		{Kind: shared.NoticeUnreadable, Detail: odd},
	})[0])})
	if want := "a\uFFFD\x00\n\\b"; notices[0].Detail != want {
		t.Errorf("a text for people came back as %q, want %q", notices[0].Detail, want)
	}
	if b.err != nil {
		t.Error(b.err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]shared.Event{
		"stdout": {Kind: shared.EventStdout, Data: []byte("a\xff"), Offset: 7},
		"stderr": {Kind: shared.EventStderr, Data: []byte("b"), Offset: 1 << 40},
		"signal": {Kind: shared.EventSignal, Signal: "TERM"},
		"error":  {Kind: shared.EventError, Err: &shared.Error{Code: shared.CodeInternal, Message: "a line was lost"}},
	} {
		var b breach
		got := fromEvent(&b, reparsed(t, toEvent(&b, want)))
		if diff := cmp.Diff(want, got); diff != "" || b.err != nil {
			t.Errorf("%s: -want +got:\n%s\nerror %v", name, diff, b.err)
		}
	}
	for name, bad := range map[string]shared.Event{
		"unspecified":   {},
		"result":        {Kind: shared.EventResult},
		"artifact":      {Kind: shared.EventArtifact},
		"empty output":  {Kind: shared.EventStdout},
		"large output":  {Kind: shared.EventStderr, Data: make([]byte, shared.MaxOutputFrame+1)},
		"error of none": {Kind: shared.EventError},
	} {
		var b breach
		if toEvent(&b, bad); b.err == nil {
			t.Errorf("the event %q was taken", name)
		}
	}
}

// checkTable holds that a table pairs every value of both sides exactly once. hostOnly counts the Go values that do not
// cross the wire; optional tells that the zero value does.
func checkTable[G comparable, P interface {
	comparable
	protoreflect.Enum
}](t *testing.T, table enum[G, P], constants, hostOnly int, optional bool) {
	t.Helper()
	var none P
	values := none.Descriptor().Values()
	want := values.Len()
	if !optional {
		want--
	}
	if len(table) != want {
		t.Errorf("%s: %d pairs, and the wire has %d values", none.Descriptor().FullName(), len(table), want)
	}
	var b breach
	seen := map[P]bool{}
	for _, pair := range table {
		wire := toEnum(&b, table, pair.value)
		if got := fromEnum(&b, table, wire); got != pair.value || seen[wire] {
			t.Errorf("%v became %v and then %v", pair.value, wire, got)
		}
		seen[wire] = true
	}
	if b.err != nil {
		t.Error(b.err)
	}
	named := len(table)
	if optional {
		named--
	}
	if named != constants-hostOnly {
		t.Errorf("%s: %d values cross the wire, and shared has %d constants of which %d are the host's",
			none.Descriptor().FullName(), named, constants, hostOnly)
	}
	if fromEnum(&b, table, P(enumNumber[P](99))); b.err == nil {
		t.Errorf("%s: the unknown value 99 was taken", none.Descriptor().FullName())
	}
}

func enumNumber[P protoreflect.Enum](n protoreflect.EnumNumber) P {
	var none P
	return none.Type().New(n).(P)
}

func TestEnums(t *testing.T) {
	t.Parallel()
	n := countConstants(t)
	checkTable(t, codeTable(), n["Code"], 0, false)
	checkTable(t, causeTable(), n["Cause"], 0, false)
	checkTable(t, optionalCauseTable(), n["Cause"], 0, true)
	checkTable(t, noticeKindTable(), n["NoticeKind"], 0, false)
	checkTable(t, dimensionTable(), n["Dimension"], 0, false)
	checkTable(t, optionalDimensionTable(), n["Dimension"], 0, true)
	checkTable(t, levelTable(), n["Level"], 0, false)
	checkTable(t, optionalLevelTable(), n["Level"], 0, true)
	checkTable(t, coldStartTable(), n["ColdStart"], 0, true)
	checkTable(t, transferTable(), n["Transfer"], 0, true)
	checkTable(t, phaseTable(), n["Phase"], 3, false) // provision, collect, teardown
	checkTable(t, cellKindTable(), n["CellKind"], 0, false)
	checkTable(t, seedAsTable(), n["SeedAs"], 0, true)
	checkTable(t, statusTable(), n["Status"], 4, false) // error, refused, cancelled, not_run
	checkTable(t, artifactKindTable(), n["ArtifactKind"], 0, false)
	checkTable(t, artifactStateTable(), n["ArtifactState"], 0, false)
	checkTable(t, resourceStateTable(), n["ResourceState"], 0, false)
}

// countConstants counts the constants of each type of shared, without those that mean unspecified.
func countConstants(t *testing.T) map[string]int {
	t.Helper()
	files, err := filepath.Glob("../*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("the sources of shared: %v, %v", files, err)
	}
	counts := map[string]int{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
				countTyped(g, counts)
			}
		}
	}
	return counts
}

func countTyped(g *ast.GenDecl, counts map[string]int) {
	var current string
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		if id, ok := v.Type.(*ast.Ident); ok {
			current = id.Name
		} else if len(v.Values) > 0 {
			current = ""
		}
		for _, name := range v.Names {
			if !strings.HasSuffix(name.Name, "Unspecified") {
				counts[current]++
			}
		}
	}
}

func TestEnums_HostOnly(t *testing.T) {
	t.Parallel()
	for _, s := range []shared.Status{shared.StatusError, shared.StatusRefused, shared.StatusCancelled, shared.StatusNotRun, ""} {
		var b breach
		if toEnum(&b, statusTable(), s); b.err == nil {
			t.Errorf("an adapter could answer the status %q", s)
		}
	}
}

// TestConvert_Breaches holds that nothing unknown is taken for something known.
func TestConvert_Breaches(t *testing.T) {
	t.Parallel()
	handle, stream := &pb.Handle{}, &pb.Stream{}
	content := &pb.Content{Sha256: strings.Repeat("0", 64)}
	var code int64
	for name, take := range map[string]func(b *breach){
		"handle missing":  func(b *breach) { fromHandle(b, nil) },
		"labels missing":  func(b *breach) { fromLabels(b, nil) },
		"capabilities":    func(b *breach) { fromCapabilities(b, nil) },
		"stream missing":  func(b *breach) { fromStream(b, nil) },
		"seed of nothing": func(b *breach) { fromSeed(b, &pb.Seed{Path: []byte("a")}) },
		"seed path":       func(b *breach) { fromSeed(b, &pb.Seed{Path: []byte("../a"), Content: content}) },
		"pattern": func(b *breach) {
			fromCollectSpec(b, &pb.CollectRequest{Handle: handle, Patterns: [][]byte{[]byte("/a")}})
		},
		"negative size":      func(b *breach) { fromContent(b, &pb.Content{SizeBytes: -1, Sha256: content.Sha256}) },
		"short digest":       func(b *breach) { fromContent(b, &pb.Content{Sha256: "00"}) },
		"negative seeds":     func(b *breach) { fromCell(b, &pb.RunCellStart{Handle: handle, Phase: 1, Kind: 1, Seeds: -1}) },
		"seeds without form": func(b *breach) { fromCell(b, &pb.RunCellStart{Handle: handle, Phase: 1, Kind: 1, Seeds: 1}) },
		"phase unspecified":  func(b *breach) { fromCell(b, &pb.RunCellStart{Handle: handle, Kind: 1}) },
		"limits at no level": func(b *breach) { fromLimits(b, &pb.Limits{Processes: 1}) },
		"variable twice":     func(b *breach) { fromVariables(b, []*pb.Variable{{}, {}}) },
		"dimension twice": func(b *breach) {
			fromCapabilities(b, &pb.Capabilities{Limits: []*pb.Support{{Dimension: 1, Level: 1}, {Dimension: 1, Level: 1}}})
		},
		"unknown dimension": func(b *breach) {
			toCapabilities(b, shared.Capabilities{Limits: map[shared.Dimension]shared.Support{"heat": {Level: shared.LevelNone}}})
		},
		"two ends": func(b *breach) {
			checkResult(b, shared.Result{Status: shared.StatusTimedOut, ExitCode: &code, Signal: "KILL"})
		},
		"no end":   func(b *breach) { checkResult(b, shared.Result{Status: shared.StatusCompleted}) },
		"no limit": func(b *breach) { checkResult(b, shared.Result{Status: shared.StatusLimitExceeded, Signal: "KILL"}) },
		"stored more than produced": func(b *breach) {
			checkResult(b, shared.Result{Status: shared.StatusTimedOut, Stdout: shared.Stream{Bytes: 1, Stored: 2}})
		},
		"status unspecified": func(b *breach) { fromResult(b, &pb.Result{Stdout: stream, Stderr: stream}) },
		"empty response":     func(b *breach) { fromEvent(b, &pb.RunCellResponse{}) },
		"signal of no name":  func(b *breach) { fromEvent(b, &pb.RunCellResponse{Item: &pb.RunCellResponse_Signal{}}) },
		"bad duration":       func(b *breach) { fromDuration(b, badDuration()) },
	} {
		var b breach
		if take(&b); b.err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
