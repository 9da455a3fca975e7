package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"cellharness/runner"
	"cellharness/runner/definition"
	"cellharness/runner/plan"
	"cellharness/runner/pluginhost"
	"cellharness/runner/record"
	"cellharness/runner/secrets"
	"cellharness/runner/summary"
	"cellharness/shared"
	"cellharness/shared/wire"
)

// hostAdapters lets the engine acquire adapters from the plugin host.
type hostAdapters struct{ host *pluginhost.Host }

// Acquire returns the live process of an instance.
func (h hostAdapters) Acquire(ctx context.Context, instance string) (runner.Adapter, error) {
	p, err := h.host.Acquire(ctx, instance)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// judge lets the engine evaluate late expressions.
type judge struct{}

// Pass evaluates verify.pass.
func (judge) Pass(e plan.Expr, o runner.CommandOutcome) (bool, error) {
	return definition.Pass(e, definition.CommandResult{
		ExitCode: o.ExitCode, Signal: o.Signal, Status: string(o.Status), Stdout: o.Stdout, Stderr: o.Stderr,
	})
}

// Metric evaluates the value of a metric.
func (judge) Metric(e plan.Expr, r record.Result, stdout, stderr []byte) (*json.Number, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	return definition.MetricValue(e, definition.MetricInput{Result: raw, Stdout: stdout, Stderr: stderr})
}

// Condition evaluates the condition of a threshold.
func (judge) Condition(e plan.Expr, s summary.Stat, vs map[string]summary.Versus) (bool, error) {
	others := make(map[string]definition.Versus, len(vs))
	for name, v := range vs {
		others[name] = definition.Versus(v)
	}
	return definition.Condition(e, definition.Stat(s), others)
}

func (a *app) secret(ctx context.Context, ref plan.SecretRef) (shared.Secret, error) {
	return secrets.Resolve(ctx, ref, a.lookup)
}

// handleVersion is the version of workspace handles that this build keeps on record.
const handleVersion = 1

func hostInfo() shared.HostInfo {
	return shared.HostInfo{Version: shared.Version, Build: shared.Build(), HandleVersions: []uint32{handleVersion}}
}

// describeRun is run.json: what was asked, with which versions, on which machine.
func (a *app) describeRun(id string, p *plan.Plan) record.Run {
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "" // it was removed under us; the record says so by its absence
	}
	return record.NewRun(record.RunSpec{
		ID: id, Plan: p, Args: a.args, Dir: cwd, Harness: shared.Version, Build: shared.Build(), Go: runtime.Version(),
		Protocol: wire.ProtocolVersion, Started: a.clock(),
	})
}
