package wire

import (
	"fmt"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

func toCell(b *breach, h shared.Handle, c shared.Cell) *pb.RunCellStart {
	return &pb.RunCellStart{
		Handle: toHandle(h), Address: c.Address, Phase: toEnum(b, phaseTable(), c.Phase),
		Kind: toEnum(b, cellKindTable(), c.Kind), Argv: each(c.Argv, toBytes[string]), Environment: toVariables(c.Env),
		SecretEnvironment: toSecrets(c.SecretEnv), Seeds: int64(len(c.Seeds)), SeedAs: toEnum(b, seedAsTable(), c.SeedAs),
		Stdin: toContent(c.Stdin), Timeout: toDuration(c.Timeout), Grace: toDuration(c.Grace), Limits: toLimits(b, c.Limits),
	}
}

// fromCell returns the cell without its seeds, which are announced one by one.
func fromCell(b *breach, m *pb.RunCellStart) (shared.Handle, shared.Cell) {
	if m.GetSeeds() < 0 {
		b.add("%d seeds are announced", m.GetSeeds())
	}
	if m.GetSeeds() > 0 && m.GetSeedAs() == pb.SeedAs_SEED_AS_UNSPECIFIED {
		b.add("there are seeds, and nothing says how git sees them")
	}
	return fromHandle(b, m.GetHandle()), shared.Cell{
		Address: m.GetAddress(), Phase: fromEnum(b, phaseTable(), m.GetPhase()),
		Kind: fromEnum(b, cellKindTable(), m.GetKind()), Argv: each(m.GetArgv(), fromBytes),
		Env: fromVariables(b, m.GetEnvironment()), SecretEnv: fromSecrets(b, m.GetSecretEnvironment()),
		SeedAs: fromEnum(b, seedAsTable(), m.GetSeedAs()), Stdin: fromContent(b, m.GetStdin()),
		Timeout: fromDuration(b, m.GetTimeout()), Grace: fromDuration(b, m.GetGrace()), Limits: fromLimits(b, m.GetLimits()),
	}
}

func toSeed(s shared.Seed) *pb.Seed {
	return &pb.Seed{Path: []byte(s.Path), Content: toContent(&s.Content)}
}

// fromSeed returns the seed without a way to read it.
func fromSeed(b *breach, m *pb.Seed) shared.Seed {
	b.missing(m.GetContent() == nil, "the content of a seed")
	if b.err != nil {
		return shared.Seed{}
	}
	path, err := shared.ParsePath(string(m.GetPath()))
	if err != nil {
		b.err = &shared.Error{Code: shared.CodeInvalid, Cause: shared.CauseSeed, Message: fmt.Sprintf("a seed is refused: %v", err)}
	}
	return shared.Seed{Path: path, Content: *fromContent(b, m.GetContent())}
}

func toLimits(b *breach, l shared.Limits) *pb.Limits {
	if l == (shared.Limits{}) {
		return nil
	}
	return &pb.Limits{
		MemoryBytes: l.MemoryBytes, Processes: l.Processes, CpuCores: l.CPU, DiskBytes: l.DiskBytes,
		OutputBytes: l.OutputBytes, FileBytes: l.FileBytes, WorkspaceOnly: l.WorkspaceOnly, NoNetwork: l.NoNetwork,
		Require: toEnum(b, optionalLevelTable(), l.Require),
	}
}

func fromLimits(b *breach, m *pb.Limits) shared.Limits {
	l := shared.Limits{
		MemoryBytes: m.GetMemoryBytes(), Processes: m.GetProcesses(), CPU: m.GetCpuCores(), DiskBytes: m.GetDiskBytes(),
		OutputBytes: m.GetOutputBytes(), FileBytes: m.GetFileBytes(), WorkspaceOnly: m.GetWorkspaceOnly(),
		NoNetwork: m.GetNoNetwork(), Require: fromEnum(b, optionalLevelTable(), m.GetRequire()),
	}
	if l.Require == shared.LevelUnspecified && l != (shared.Limits{}) {
		b.add("there are limits, and nothing says at which level they are required")
	}
	return l
}

func toResult(b *breach, r shared.Result) *pb.Result {
	return &pb.Result{
		Status: toEnum(b, statusTable(), r.Status), ExitCode: r.ExitCode, Signal: r.Signal,
		Limit: toEnum(b, optionalDimensionTable(), r.Limit), Started: toTime(r.Started), Wall: toDuration(r.Wall),
		Cpu: toDuration(r.CPU), MaxRssBytes: r.MaxRSS, Stdout: toStream(r.Stdout), Stderr: toStream(r.Stderr),
		Notices: toNotices(b, r.Notices),
	}
}

func fromResult(b *breach, m *pb.Result) shared.Result {
	return shared.Result{
		Status: fromEnum(b, statusTable(), m.GetStatus()), ExitCode: m.ExitCode, Signal: m.GetSignal(),
		Limit: fromEnum(b, optionalDimensionTable(), m.GetLimit()), Started: fromTime(b, m.GetStarted()),
		Wall: fromDuration(b, m.GetWall()), CPU: fromDuration(b, m.GetCpu()), MaxRSS: m.GetMaxRssBytes(),
		Stdout: fromStream(b, m.GetStdout()), Stderr: fromStream(b, m.GetStderr()), Notices: fromNotices(b, m.GetNotices()),
	}
}

// checkResult notes an end that is unknown or told in two ways.
func checkResult(b *breach, r shared.Result) {
	if r.ExitCode != nil && r.Signal != "" {
		b.add("the result has an exit code (%d) and a signal (%s)", *r.ExitCode, r.Signal)
	}
	if r.Status == shared.StatusCompleted && r.ExitCode == nil && r.Signal == "" {
		b.add("the command completed with neither an exit code nor a signal")
	}
	if r.Status == shared.StatusLimitExceeded && r.Limit == "" {
		b.add("a limit was exceeded, and nothing says which")
	}
	for name, s := range map[string]shared.Stream{"stdout": r.Stdout, "stderr": r.Stderr} {
		if s.Stored < 0 || s.Stored > s.Bytes {
			b.add("%d of %d bytes of %s are said to be stored", s.Stored, s.Bytes, name)
		}
	}
}

func toStream(s shared.Stream) *pb.Stream {
	return &pb.Stream{ProducedBytes: s.Bytes, StoredBytes: s.Stored, Sha256: s.SHA256}
}

func fromStream(b *breach, m *pb.Stream) shared.Stream {
	b.missing(m == nil, "the count of an output stream")
	return shared.Stream{Bytes: m.GetProducedBytes(), Stored: m.GetStoredBytes(), SHA256: m.GetSha256()}
}

func toEvent(b *breach, e shared.Event) *pb.RunCellResponse {
	switch e.Kind {
	case shared.EventStdout:
		return &pb.RunCellResponse{Item: &pb.RunCellResponse_Stdout{Stdout: toOutput(b, e)}}
	case shared.EventStderr:
		return &pb.RunCellResponse{Item: &pb.RunCellResponse_Stderr{Stderr: toOutput(b, e)}}
	case shared.EventSignal:
		return &pb.RunCellResponse{Item: &pb.RunCellResponse_Signal{Signal: &pb.Signal{Name: e.Signal}}}
	case shared.EventError:
		if e.Err != nil {
			return &pb.RunCellResponse{Item: &pb.RunCellResponse_Error{Error: toError(b, e.Err)}}
		}
	}
	b.add("an event of kind %d does not belong in the events of a command", e.Kind)
	return nil
}

func toOutput(b *breach, e shared.Event) *pb.Output {
	checkOutput(b, e.Data)
	return &pb.Output{Data: e.Data, OffsetBytes: e.Offset}
}

func checkOutput(b *breach, data []byte) {
	if len(data) == 0 || len(data) > shared.MaxOutputFrame {
		b.add("a piece of output has %d bytes; 1 to %d are allowed", len(data), shared.MaxOutputFrame)
	}
}

// fromEvent returns the event that a message stands for; a message of another kind is a breach.
func fromEvent(b *breach, m *pb.RunCellResponse) shared.Event {
	switch item := m.GetItem().(type) {
	case *pb.RunCellResponse_Stdout:
		return fromOutput(b, shared.EventStdout, item.Stdout)
	case *pb.RunCellResponse_Stderr:
		return fromOutput(b, shared.EventStderr, item.Stderr)
	case *pb.RunCellResponse_Signal:
		b.missing(item.Signal.GetName() == "", "the name of a signal")
		return shared.Event{Kind: shared.EventSignal, Signal: item.Signal.GetName()}
	case *pb.RunCellResponse_Error:
		return shared.Event{Kind: shared.EventError, Err: fromError(b, item.Error)}
	}
	b.add("a message of RunCell holds nothing that is known")
	return shared.Event{}
}

func fromOutput(b *breach, kind shared.EventKind, m *pb.Output) shared.Event {
	checkOutput(b, m.GetData())
	return shared.Event{Kind: kind, Data: m.GetData(), Offset: m.GetOffsetBytes()}
}

// toError returns the wire form of e, within the bounds of a status.
func toError(b *breach, e *shared.Error) *pb.Error {
	p := presentable(e)
	return &pb.Error{
		Code: toEnum(b, codeTable(), p.Code), Cause: toEnum(b, optionalCauseTable(), p.Cause), Message: p.Message,
		Violations: each(p.Violations, func(v shared.Violation) *pb.Violation {
			return &pb.Violation{Field: v.Field, Message: v.Message}
		}),
		RetryAfter: toDuration(p.RetryAfter),
	}
}

// fromError keeps the text of an error whose code or cause is unknown here, as FromStatus does.
func fromError(b *breach, m *pb.Error) *shared.Error {
	var kind breach
	code := fromEnum(&kind, codeTable(), m.GetCode())
	cause := fromEnum(&kind, optionalCauseTable(), m.GetCause())
	if kind.err != nil {
		code, cause = shared.CodeInternal, shared.CauseProtocol
	}
	return &shared.Error{
		Code: code, Cause: cause, Message: m.GetMessage(),
		Violations: each(m.GetViolations(), func(v *pb.Violation) shared.Violation {
			return shared.Violation{Field: v.GetField(), Message: v.GetMessage()}
		}),
		RetryAfter: fromDuration(b, m.GetRetryAfter()),
	}
}
