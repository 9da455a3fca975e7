package main

import (
	"fmt"
	"io"
	"runtime"
	"sync"

	"cellharness/runner/definition"
	"cellharness/runner/event"
	"cellharness/shared"
	"cellharness/shared/wire"
)

// output is where a command's events go: as JSON lines to stdout, or as text to stderr; and, once a run has a folder,
// to its events.jsonl.
type output struct {
	app    *app
	json   bool
	stream *event.Stream
	record *lateSink
}

// eventSink takes events and the lines they are marshalled to.
type eventSink = func(event.Event, []byte)

// newOutput starts the stream of a command. render turns events into text; it is not used with --json.
func (a *app) newOutput(run string, json bool, render eventSink) *output {
	out := &output{app: a, json: json, record: &lateSink{}}
	sinks := []eventSink{out.record.take}
	if json {
		sinks = append(sinks, event.LineWriter(a.stdout))
	} else if render != nil {
		sinks = append(sinks, render)
	}
	out.stream = event.NewStream(run, a.clock, sinks...)
	out.event(&event.Version{
		Schema: event.Schema, Harness: shared.Version, Build: shared.Build(), Go: runtime.Version(),
		Protocol: wire.ProtocolVersion,
	})
	return out
}

func (o *output) event(e event.Event) { o.stream.Emit(e) }

// diagnostics shows what is wrong with a definition, with its source lines where people read it.
func (o *output) diagnostics(diags definition.Diagnostics) {
	if !o.json {
		o.app.write(diags)
		return
	}
	for _, d := range diags {
		o.event(diagnosticEvent(d))
	}
}

// write prints diagnostics for people. Where stderr is gone there is nobody left to tell.
func (a *app) write(diags definition.Diagnostics) { _ = diags.Write(a.stderr, false) }

func diagnosticEvent(d definition.Diagnostic) *event.Diagnostic {
	return &event.Diagnostic{
		Severity: string(d.Severity), Summary: d.Summary, Detail: d.Detail, File: d.Range.File, Line: d.Range.Line,
		Column: d.Range.Column, Snippet: d.Snippet, Address: d.Address,
	}
}

// finish ends the stream.
func (o *output) finish(e *event.RunFinished) { o.event(e) }

// lateSink keeps the lines of a stream until there is a file for them.
type lateSink struct {
	mu    sync.Mutex
	lines [][]byte
	to    io.Writer
	err   error // the first failed write; events are derived, so it does not stop the run
}

func (s *lateSink) take(_ event.Event, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to == nil {
		s.lines = append(s.lines, append([]byte(nil), line...))
		return
	}
	s.write(line)
}

func (s *lateSink) write(line []byte) {
	if _, err := s.to.Write(line); err != nil && s.err == nil {
		s.err = fmt.Errorf("write events.jsonl: %w", err)
	}
}

// open gives the stream its file.
func (s *lateSink) open(to io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
	for _, line := range s.lines {
		s.write(line)
	}
	s.lines = nil
}
