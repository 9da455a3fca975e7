package main

import (
	"bytes"
	"testing"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := "a\x1b[2J\x1b]0;x\a\u202eb\u0085\x7f\tc\r\n\u00e9"
	if n, err := (printable{&out}).Write([]byte(in)); n != len(in) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	want := `a\u001b[2J\u001b]0;x\u0007\u202eb\u0085\u007f` + "\tc" + `\u000d` + "\n\u00e9"
	if out.String() != want {
		t.Errorf("shown as %q, want %q", out.String(), want)
	}
}
