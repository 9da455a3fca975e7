package wire

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

func cellStart(seeds int64, stdin *pb.Content) *pb.RunCellRequest {
	return &pb.RunCellRequest{Item: &pb.RunCellRequest_Start{Start: &pb.RunCellStart{
		Handle: &pb.Handle{}, Phase: pb.Phase_PHASE_CELL, Kind: pb.CellKind_CELL_KIND_EXEC, Seeds: seeds,
		SeedAs: pb.SeedAs_SEED_AS_UNCOMMITTED, Stdin: stdin,
	}}}
}

func cellSeed(path string, data string) *pb.RunCellRequest {
	return &pb.RunCellRequest{Item: &pb.RunCellRequest_Seed{Seed: &pb.Seed{Path: []byte(path), Content: announced(data)}}}
}

func cellChunk(data string) *pb.RunCellRequest {
	return &pb.RunCellRequest{Item: &pb.RunCellRequest_Chunk{Chunk: &pb.Chunk{Data: []byte(data)}}}
}

func announced(data string) *pb.Content {
	c := content([]byte(data))
	return toContent(&c)
}

// TestServer_CellRequests holds that the adapter never sees a cell whose request breaks the contract.
func TestServer_CellRequests(t *testing.T) {
	t.Parallel()
	cancel := &pb.RunCellRequest{Item: &pb.RunCellRequest_Cancel{Cancel: &pb.Cancel{}}}
	protocol := &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseProtocol}
	for name, tc := range map[string]struct {
		send []*pb.RunCellRequest
		want error // nil: the adapter is asked
	}{
		"nothing":           {nil, protocol},
		"no start":          {[]*pb.RunCellRequest{cellChunk("x")}, protocol},
		"empty message":     {[]*pb.RunCellRequest{{}}, protocol},
		"no handle":         {[]*pb.RunCellRequest{{Item: &pb.RunCellRequest_Start{Start: &pb.RunCellStart{Phase: 1, Kind: 1}}}}, protocol},
		"seed missing":      {[]*pb.RunCellRequest{cellStart(1, nil)}, protocol},
		"chunk before seed": {[]*pb.RunCellRequest{cellStart(1, nil), cellChunk("x")}, protocol},
		"chunk missing":     {[]*pb.RunCellRequest{cellStart(1, nil), cellSeed("a", "xy"), cellChunk("x")}, protocol},
		"seed too early":    {[]*pb.RunCellRequest{cellStart(2, nil), cellSeed("a", "xy"), cellChunk("x"), cellSeed("b", "")}, protocol},
		"chunk too long":    {[]*pb.RunCellRequest{cellStart(1, nil), cellSeed("a", "xy"), cellChunk("xyz")}, protocol},
		"chunk empty":       {[]*pb.RunCellRequest{cellStart(1, nil), cellSeed("a", "xy"), cellChunk("")}, protocol},
		"chunk oversized":   {[]*pb.RunCellRequest{cellStart(1, nil), cellSeed("a", "xy"), cellChunk(strings.Repeat("x", maxChunk+1))}, protocol},
		"digest":            {[]*pb.RunCellRequest{cellStart(1, nil), cellSeed("a", "xy"), cellChunk("xz")}, protocol},
		"stdin digest":      {[]*pb.RunCellRequest{cellStart(0, announced("xy")), cellChunk("xz")}, protocol},
		"empty seed's digest": {[]*pb.RunCellRequest{cellStart(1, nil), {Item: &pb.RunCellRequest_Seed{Seed: &pb.Seed{
			Path: []byte("a"), Content: &pb.Content{Sha256: strings.Repeat("0", 64)},
		}}}}, protocol},
		"seed path":  {[]*pb.RunCellRequest{cellStart(1, nil), cellSeed("../a", "")}, &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseSeed}},
		"gives up":   {[]*pb.RunCellRequest{cellStart(1, nil), cancel}, shared.ErrCancelled},
		"right":      {[]*pb.RunCellRequest{cellStart(1, announced("z")), cellSeed("a", "xy"), cellChunk("x"), cellChunk("y"), cellChunk("z")}, nil},
		"no content": {[]*pb.RunCellRequest{cellStart(0, nil)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := false
			client := rawClient(t, &stub{
				runCell: func(context.Context, shared.Handle, shared.Cell, shared.EventSink) (shared.Result, error) {
					asked = true
					return exited(0), nil
				},
			})
			_, err := exchange(t, client, tc.send...)
			if tc.want == nil && (err != nil || !asked) || tc.want != nil && (!errors.Is(err, tc.want) || !Spoken(err)) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if tc.want != nil && asked {
				t.Error("the adapter was asked")
			}
		})
	}
}

// exchange sends messages, closes its side and reads to the end. It holds that a failure is said twice: in the last
// message and in the status.
func exchange(t *testing.T, client pb.AdapterClient, send ...*pb.RunCellRequest) ([]*pb.RunCellResponse, error) {
	t.Helper()
	stream, err := client.RunCell(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range send {
		if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var got []*pb.RunCellResponse
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err == nil {
			got = append(got, m)
			continue
		}
		var b breach
		if len(got) == 0 || !got[len(got)-1].GetError().GetFinal() {
			t.Fatalf("the status %v came without a final error", err)
		}
		if last := fromError(&b, got[len(got)-1].GetError()); last.Error() != FromStatus(err).Error() {
			t.Errorf("the last message says %q, the status %q", last, FromStatus(err))
		}
		return got, FromStatus(err)
	}
}

func TestServer_MessageAfterContents(t *testing.T) {
	t.Parallel()
	client := rawClient(t, &stub{
		runCell: func(ctx context.Context, _ shared.Handle, _ shared.Cell, _ shared.EventSink) (shared.Result, error) {
			<-ctx.Done()
			return shared.Result{}, ctx.Err()
		},
	})
	_, err := exchange(t, client, cellStart(0, nil), cellChunk("x"))
	if !errors.Is(err, &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseProtocol}) {
		t.Errorf("error %v, want a breach of the contract", err)
	}
}

// TestServer_ClientGone holds that a command ends when its host goes away without a word.
func TestServer_ClientGone(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}), make(chan struct{})
	client := rawClient(t, &stub{
		runCell: func(ctx context.Context, _ shared.Handle, _ shared.Cell, _ shared.EventSink) (shared.Result, error) {
			close(started)
			<-ctx.Done()
			close(ended)
			return shared.Result{}, ctx.Err()
		},
	})
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	stream, err := client.RunCell(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(cellStart(0, nil)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		wait chan struct{}
	}{{"started", started}, {"ended", ended}} {
		select {
		case <-step.wait:
			cancel()
		case <-bounded(t).Done():
			t.Fatalf("the command has not %s", step.name)
		}
	}
}

func TestServer_ProvisionRequests(t *testing.T) {
	t.Parallel()
	start := func(patch *pb.Content) *pb.ProvisionRequest {
		return &pb.ProvisionRequest{Item: &pb.ProvisionRequest_Start{Start: &pb.ProvisionStart{Labels: &pb.Labels{}, Patch: patch}}}
	}
	chunk := func(data string) *pb.ProvisionRequest {
		return &pb.ProvisionRequest{Item: &pb.ProvisionRequest_Chunk{Chunk: &pb.Chunk{Data: []byte(data)}}}
	}
	for name, send := range map[string][]*pb.ProvisionRequest{
		"nothing":       nil,
		"no start":      {chunk("x")},
		"no labels":     {{Item: &pb.ProvisionRequest_Start{Start: &pb.ProvisionStart{}}}},
		"chunk missing": {start(announced("xy")), chunk("x")},
		"digest":        {start(announced("xy")), chunk("xz")},
		"chunk of none": {start(nil), chunk("x")},
		"second start":  {start(announced("")), start(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := rawClient(t, &stub{provision: func(context.Context, shared.ProvisionSpec) (shared.Provisioned, error) {
				t.Error("the adapter was asked")
				return shared.Provisioned{}, nil
			}})
			stream, err := client.Provision(bounded(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range send {
				if err := stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			_, err = stream.CloseAndRecv()
			if !errors.Is(FromStatus(err), &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseProtocol}) {
				t.Errorf("error %v, want a breach of the contract", err)
			}
		})
	}
}

// liar is a server that sends what a test says.
type liar struct {
	pb.UnimplementedAdapterServer
	cell    []*pb.RunCellResponse
	collect []*pb.CollectResponse
	status  error
}

func (l *liar) RunCell(stream grpc.BidiStreamingServer[pb.RunCellRequest, pb.RunCellResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for _, m := range l.cell {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return l.status
}

func (l *liar) Collect(_ *pb.CollectRequest, stream grpc.ServerStreamingServer[pb.CollectResponse]) error {
	for _, m := range l.collect {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return l.status
}

func (l *liar) client(t *testing.T) shared.Adapter {
	t.Helper()
	return NewClient(connectRaw(t, func(s grpc.ServiceRegistrar) { pb.RegisterAdapterServer(s, l) }))
}

func TestClient_CellResponses(t *testing.T) {
	t.Parallel()
	code := int64(0)
	good := &pb.Result{Status: pb.Status_STATUS_COMPLETED, ExitCode: &code, Stdout: &pb.Stream{}, Stderr: &pb.Stream{}}
	result := &pb.RunCellResponse{Item: &pb.RunCellResponse_Result{Result: good}}
	output := func(data string, offset int64) *pb.RunCellResponse {
		return &pb.RunCellResponse{Item: &pb.RunCellResponse_Stdout{Stdout: &pb.Output{Data: []byte(data), OffsetBytes: offset}}}
	}
	failure := func(code pb.Code, final bool) *pb.RunCellResponse {
		return &pb.RunCellResponse{Item: &pb.RunCellResponse_Error{Error: &pb.Error{Code: code, Message: "said", Final: final}}}
	}
	protocol := &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol}
	crash := status.Error(codes.Unavailable, "error reading from server: EOF")
	for name, tc := range map[string]struct {
		send   []*pb.RunCellResponse
		status error
		want   error
	}{
		"right":                {[]*pb.RunCellResponse{output("a", 0), output("b", 1), result}, nil, nil},
		"no result":            {[]*pb.RunCellResponse{output("a", 0)}, nil, protocol},
		"two results":          {[]*pb.RunCellResponse{result, result}, nil, protocol},
		"output after result":  {[]*pb.RunCellResponse{result, output("a", 0)}, nil, protocol},
		"output again":         {[]*pb.RunCellResponse{output("ab", 0), output("b", 1), result}, nil, protocol},
		"output too large":     {[]*pb.RunCellResponse{output(strings.Repeat("x", shared.MaxOutputFrame+1), 0), result}, nil, protocol},
		"empty message":        {[]*pb.RunCellResponse{{}, result}, nil, protocol},
		"unknown status":       {[]*pb.RunCellResponse{{Item: &pb.RunCellResponse_Result{Result: &pb.Result{Status: 99, ExitCode: &code, Stdout: &pb.Stream{}, Stderr: &pb.Stream{}}}}}, nil, protocol},
		"unknown end":          {[]*pb.RunCellResponse{{Item: &pb.RunCellResponse_Result{Result: &pb.Result{Status: 1, Stdout: &pb.Stream{}, Stderr: &pb.Stream{}}}}}, nil, protocol},
		"message after error":  {[]*pb.RunCellResponse{failure(pb.Code_CODE_NOT_FOUND, true), result}, nil, protocol},
		"event, then result":   {[]*pb.RunCellResponse{failure(pb.Code_CODE_NOT_FOUND, false), result}, nil, nil},
		"error without status": {[]*pb.RunCellResponse{failure(pb.Code_CODE_NOT_FOUND, true)}, nil, shared.ErrNotFound},
		"error, then crash":    {[]*pb.RunCellResponse{failure(pb.Code_CODE_NOT_FOUND, true)}, crash, shared.ErrNotFound},
		"error of tomorrow":    {[]*pb.RunCellResponse{failure(99, true)}, nil, protocol},
		"crash":                {[]*pb.RunCellResponse{output("a", 0)}, crash, shared.ErrUnavailable},
		"result, then crash":   {[]*pb.RunCellResponse{result}, crash, nil},
		"result, then error":   {[]*pb.RunCellResponse{result}, ToStatus(shared.ErrNotFound), shared.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &liar{cell: tc.send, status: tc.status}
			_, err := l.client(t).RunCell(bounded(t), shared.Handle{}, execCell(), ignoreEvents)
			if tc.want == nil && err != nil || !errors.Is(err, tc.want) {
				t.Errorf("RunCell: %v, want %v", err, tc.want)
			}
			if wantSpoken := name != "crash"; Spoken(err) != wantSpoken {
				t.Errorf("spoken is %t, want %t", !wantSpoken, wantSpoken)
			}
		})
	}
}

func TestClient_CollectResponses(t *testing.T) {
	t.Parallel()
	digest := sha256.Sum256([]byte("ab"))
	begin := func(path string) *pb.CollectResponse {
		return &pb.CollectResponse{Item: &pb.CollectResponse_Begin{Begin: &pb.ArtifactBegin{Kind: pb.ArtifactKind_ARTIFACT_KIND_FILE, Path: []byte(path)}}}
	}
	chunk := func(data string) *pb.CollectResponse {
		return &pb.CollectResponse{Item: &pb.CollectResponse_Chunk{Chunk: &pb.Chunk{Data: []byte(data)}}}
	}
	end := func(path string, size int64, state pb.ArtifactState) *pb.CollectResponse {
		return &pb.CollectResponse{Item: &pb.CollectResponse_End{End: &pb.Artifact{
			Kind: pb.ArtifactKind_ARTIFACT_KIND_FILE, Path: []byte(path), State: state, SizeBytes: size, Sha256: hex.EncodeToString(digest[:]),
		}}}
	}
	const present = pb.ArtifactState_ARTIFACT_STATE_PRESENT
	done := &pb.CollectResponse{Item: &pb.CollectResponse_Collection{Collection: &pb.Collection{}}}
	for name, tc := range map[string]struct {
		send []*pb.CollectResponse
		ok   bool
	}{
		"right":                {[]*pb.CollectResponse{begin("a"), chunk("a"), chunk("b"), end("a", 2, present), done}, true},
		"cut and refused":      {[]*pb.CollectResponse{begin("a"), chunk("a"), end("a", 9, pb.ArtifactState_ARTIFACT_STATE_REFUSED), done}, true},
		"no collection":        {[]*pb.CollectResponse{begin("a"), chunk("ab"), end("a", 2, present)}, false},
		"two collections":      {[]*pb.CollectResponse{done, done}, false},
		"collection inside":    {[]*pb.CollectResponse{begin("a"), done}, false},
		"begin inside":         {[]*pb.CollectResponse{begin("a"), begin("b")}, false},
		"chunk outside":        {[]*pb.CollectResponse{chunk("ab"), done}, false},
		"end outside":          {[]*pb.CollectResponse{end("a", 2, present), done}, false},
		"empty chunk":          {[]*pb.CollectResponse{begin("a"), chunk(""), done}, false},
		"other path":           {[]*pb.CollectResponse{begin("a"), chunk("ab"), end("b", 2, present), done}, false},
		"size":                 {[]*pb.CollectResponse{begin("a"), chunk("ab"), end("a", 3, present), done}, false},
		"digest":               {[]*pb.CollectResponse{begin("a"), chunk("ax"), end("a", 2, present), done}, false},
		"unknown state":        {[]*pb.CollectResponse{begin("a"), chunk("ab"), end("a", 2, 99), done}, false},
		"outside by name":      {[]*pb.CollectResponse{begin("../a"), chunk("ab"), end("../a", 2, present), done}, false},
		"git directory":        {[]*pb.CollectResponse{begin(".git/config"), chunk("ab"), end(".git/config", 2, present), done}, false},
		"git directory, alone": {[]*pb.CollectResponse{begin(".git/config"), end(".git/config", 0, pb.ArtifactState_ARTIFACT_STATE_REFUSED), done}, true},
		"empty message":        {[]*pb.CollectResponse{{}, done}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &liar{collect: tc.send}
			_, err := l.client(t).Collect(bounded(t), shared.Handle{}, shared.CollectSpec{}, &memorySink{})
			if tc.ok != (err == nil) {
				t.Errorf("Collect: %v, want success %t", err, tc.ok)
			}
			if !tc.ok && !errors.Is(err, &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol}) {
				t.Errorf("Collect: %v, want a breach of the contract", err)
			}
		})
	}
}

// TestClient_OldAdapter holds that a call which the adapter does not know is told apart.
func TestClient_OldAdapter(t *testing.T) {
	t.Parallel()
	_, err := (&liar{}).client(t).Drain(bounded(t), 0)
	if !errors.Is(err, shared.ErrNotImplemented) || Spoken(err) {
		t.Errorf("Drain: %v", err)
	}
}
