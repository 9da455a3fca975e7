package redact

import (
	"bytes"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"testing"

	"cellharness/shared"
)

const canary = `canary/0123+"x`

func masked(t *testing.T, chunks ...string) (string, int64) {
	t.Helper()
	m, err := New([]shared.Secret{shared.NewSecret(canary), shared.NewSecret("short")})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := m.Writer(&out)
	for _, c := range chunks {
		if n, err := w.Write([]byte(c)); n != len(c) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", c, n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), w.Found()
}

func TestWriter_MasksEveryForm(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{
		"plain":  canary,
		"base64": base64.StdEncoding.EncodeToString([]byte(canary)),
		"json":   `canary/0123+\"x`,
		"url":    `canary%2F0123%2B%22x`,
		"other":  "short",
	} {
		got, found := masked(t, "a"+form+"b"+form)
		if got != "a***b***" || found != 2 {
			t.Errorf("%s: %q, %d found, want a***b***, 2", name, got, found)
		}
	}
}

func TestWriter_MasksAcrossAnyBorder(t *testing.T) {
	t.Parallel()
	text := "before " + canary + " after"
	for cut := range len(text) {
		if got, _ := masked(t, text[:cut], text[cut:]); got != "before *** after" {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
}

func TestWriter_PassesEverythingElseUnchanged(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var want bytes.Buffer
	var chunks []string
	for range 200 {
		chunk := make([]byte, rng.IntN(64))
		for i := range chunk {
			chunk[i] = byte(rng.UintN(256))
		}
		want.Write(chunk)
		chunks = append(chunks, string(chunk))
	}
	got, found := masked(t, chunks...)
	if got != want.String() || found != 0 {
		t.Errorf("%d of %d bytes equal, %d found", len(got), want.Len(), found)
	}
}

func TestNew_NothingToMask(t *testing.T) {
	t.Parallel()
	m, err := New([]shared.Secret{{}})
	if m != nil || err != nil {
		t.Fatalf("New = %v, %v, want nil", m, err)
	}
	var out bytes.Buffer
	if _, err := m.Writer(&out).Write([]byte("x")); err != nil || out.String() != "x" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	m, err := New([]shared.Secret{shared.NewSecret(canary)})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Mask("a " + canary + " b"); got != "a *** b" {
		t.Errorf("Mask = %q", got)
	}
	var none *Masker
	if got := none.Mask("as it is"); got != "as it is" {
		t.Errorf("Mask without secrets = %q", got)
	}
}

func TestWriter_WaitsForTheLongerSecret(t *testing.T) {
	t.Parallel()
	m, err := New([]shared.Secret{shared.NewSecret("sk-abc"), shared.NewSecret("sk-abc-longer-key")})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"x sk-abc-longer-key y": "x *** y", "x sk-abc-lower": "x ***-lower", "sk-abc": "***", "sk-absk-abc": "sk-ab***"} {
		for cut := range len(text) {
			var out bytes.Buffer
			w := m.Writer(&out)
			for _, part := range []string{text[:cut], text[cut:]} {
				if _, err := w.Write([]byte(part)); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil || out.String() != want {
				t.Errorf("%q cut at %d: %q, %v; want %q", text, cut, out.String(), err, want)
			}
		}
	}
}

// TestWriter_OverlapsAreOneMask holds for every border of writes.
func TestWriter_OverlapsAreOneMask(t *testing.T) {
	t.Parallel()
	m, err := New([]shared.Secret{shared.NewSecret("abcdef"), shared.NewSecret("defghi"), shared.NewSecret("xyxy")})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"1abcdefghi2": "1***2", "abcdefabcdef": "******", "xyxyxyxy": "***", "abcde defghi": "abcde ***",
	} {
		for cut := range len(text) {
			for second := cut; second < len(text); second++ {
				var out bytes.Buffer
				w := m.Writer(&out)
				for _, part := range []string{text[:cut], text[cut:second], text[second:]} {
					if _, err := w.Write([]byte(part)); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Close(); err != nil || out.String() != want {
					t.Errorf("%q cut at %d and %d: %q, %v; want %q", text, cut, second, out.String(), err, want)
				}
			}
		}
	}
}

func TestWriter_MasksJSONOfOtherLanguages(t *testing.T) {
	t.Parallel()
	m, err := New([]shared.Secret{shared.NewSecret(`a"<b>&`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Mask(`{"k": "a\"<b>&"}`); got != `{"k": "***"}` {
		t.Errorf("masked as %s", got)
	}
}

// BenchmarkWriter_OnlySecrets is the worst that a command can print.
func BenchmarkWriter_OnlySecrets(b *testing.B) {
	m, err := New([]shared.Secret{shared.NewSecret("canary_0123456789")})
	if err != nil {
		b.Fatal(err)
	}
	chunk := bytes.Repeat([]byte("canary_0123456789"), 1900)
	b.SetBytes(int64(len(chunk)))
	w := m.Writer(io.Discard)
	for b.Loop() {
		if _, err := w.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
}
