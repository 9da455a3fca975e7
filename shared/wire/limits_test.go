package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"cellharness/shared"
)

func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", maxMessage)
	client := connect(t, &stub{
		teardown: func(context.Context, shared.Handle) (shared.TeardownReport, error) {
			return shared.TeardownReport{Resources: []shared.ResourceReport{{Name: huge, State: shared.ResourceRemoved}}}, nil
		},
		find: func(context.Context, shared.Labels) ([]shared.Found, error) {
			return []shared.Found{{Handle: shared.Handle{Root: huge}}}, nil
		},
	})
	cell := execCell()
	cell.Argv = append(cell.Argv, huge)
	_, err := client.RunCell(bounded(t), shared.Handle{}, cell, ignoreEvents)
	checkBlame(t, "a huge argument", err, shared.CauseProtocol, "RunCell", "1048576")
	_, err = client.Configure(bounded(t), shared.Configuration{Settings: []byte(huge)})
	checkBlame(t, "huge settings", err, shared.CauseProtocol, "Configure")
	wrong := &shared.Error{Code: shared.CodeInternal, Cause: shared.CauseProtocol}
	if _, err := client.Teardown(bounded(t), shared.Handle{}); !errors.Is(err, wrong) || !Spoken(err) {
		t.Errorf("a huge report: %v", err)
	}
	if _, err := client.Find(bounded(t), shared.Labels{}); !errors.Is(err, wrong) || !Spoken(err) {
		t.Errorf("a huge find: %v", err)
	}
}

func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	client := connect(t, &stub{
		teardown: func(context.Context, shared.Handle) (shared.TeardownReport, error) { panic("canary") },
		runCell: func(context.Context, shared.Handle, shared.Cell, shared.EventSink) (shared.Result, error) {
			panic("canary")
		},
	})
	for range 2 { // the second shows that the first did not end the server
		_, unary := client.Teardown(bounded(t), shared.Handle{})
		_, stream := client.RunCell(bounded(t), shared.Handle{}, execCell(), ignoreEvents)
		for _, err := range []error{unary, stream} {
			if !errors.Is(err, shared.ErrInternal) || !Spoken(err) || !strings.Contains(err.Error(), "panicked") {
				t.Errorf("a panic arrived as %v", err)
			}
			if strings.Contains(fmt.Sprint(err), "canary") {
				t.Errorf("the value of the panic crossed the wire: %v", err)
			}
		}
	}
}
