package shared

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const canary = "canary_0123456789"

// TestSecret_CannotBePrinted tries every verb with every flag, alone, by pointer and inside of other values.
func TestSecret_CannotBePrinted(t *testing.T) {
	t.Parallel()
	s := NewSecret(canary)
	holders := []any{s, &s, []Secret{s}, map[string]Secret{"k": s}, struct{ S Secret }{s}, &struct{ S *Secret }{&s}}
	for _, verb := range []string{"v", "s", "q", "x", "X", "d", "T", "p", "t", "b", "e", "U", "c"} {
		for _, flag := range []string{"", "+", "#", " ", "-20", "0"} {
			for _, h := range holders {
				if out := fmt.Sprintf("%"+flag+verb, h); reveals(out) {
					t.Errorf("%%%s%s of %T prints %s", flag, verb, h, out)
				}
			}
		}
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("x", "secret", s, "holder", holders[4])
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "holder", holders[2])
	if reveals(log.String()) {
		t.Errorf("the log shows it: %s", log.String())
	}
	if s.Reveal() != canary {
		t.Errorf("Reveal = %q", s.Reveal())
	}
}

func reveals(out string) bool {
	return strings.Contains(out, canary) || strings.Contains(out, fmt.Sprintf("%x", canary)) || strings.Contains(out, fmt.Sprintf("%X", canary))
}

func TestSecret_CannotBeMarshalled(t *testing.T) {
	t.Parallel()
	s := NewSecret(canary)
	_, fromJSON := json.Marshal(map[string]Secret{"k": s})
	_, fromXML := xml.Marshal(struct{ S Secret }{s})
	if fromXML == nil {
		t.Error("xml marshals it")
	}
	fromGob := gob.NewEncoder(&bytes.Buffer{}).Encode(s)
	_, fromText := encoding.TextMarshaler(s).MarshalText()
	_, fromBinary := encoding.BinaryMarshaler(s).MarshalBinary()
	for name, err := range map[string]error{"json": fromJSON, "gob": fromGob, "text": fromText, "binary": fromBinary} {
		if !errors.Is(err, ErrSecretMarshalled) {
			t.Errorf("%s: %v, want %v", name, err, ErrSecretMarshalled)
		}
	}
}
