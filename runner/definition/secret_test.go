package definition_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellharness/runner/definition"
)

// canary is the text that no diagnostic may show.
const canary = "dtn_canary_0123456789"

// TestNoSecretIsShown writes a secret where a reference to one belongs, and a sensitive value wherever it could be
// quoted, and looks for it in everything that comes back.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	const literal = `"` + canary + `"`
	for name, value := range map[string]string{
		"literal": literal, "unclosed": `"` + canary, "template": `"x${` + literal + `}"`, "number": "tonumber(" + literal + ")",
		"unknown function": "nosuch(" + literal + ")", "comma": literal + ",", "heredoc": "<<EOT\n" + canary + "\nEOT",
		"list": "[" + literal + "]", "escaped": `"dtn_\u0063anary_0123456789"`, "operand": `secret::env("KEY") + ` + literal,
	} {
		src := "credentials \"daytona\" \"team\" {\n  api_key = " + value + "\n}\n" + trialOf("")
		hidden(t, "credential "+name, "main.hcl", src)
	}
	for name, value := range map[string]string{
		"literal": canary, "number": "${tonumber('" + canary + "')}", "template": "x${'" + canary + "'}",
	} {
		value = strings.ReplaceAll(value, "'", `\"`)
		hidden(t, "JSON "+name, "main.hcl.json", `{"credentials": {"daytona": {"team": {"api_key": "`+value+`"}}}}`)
	}
	for name, value := range map[string]string{
		"text": "var.pin", "number": "tonumber(var.pin)", "parse": "parseint(var.pin, 10)", "date": `formatdate("YYYY", var.pin)`,
		"index": "[1][var.pin]", "condition": "var.pin ? 1 : 2", "operand": "var.pin + 1", "json": "jsondecode(var.pin)",
		"object": "{ (var.pin) = 1 }", "function": "nosuch(var.pin)", "attribute": "var.pin.x", "template": `"${var.pin}"`,
		"once": `replace_once("a", var.pin, "b")`, "file": "file(var.pin)", "missing": `{ a = var.pin }.b`,
	} {
		for _, field := range []string{"entrypoint", "stdin", "timeout", "env"} {
			src := "variable \"pin\" {\n  sensitive = true\n}\n" + trialOf("  cell {\n    kind = \"exec_cell\"\n    "+field+" = "+value+"\n  }\n")
			hidden(t, "variable "+name+" as "+field, "main.hcl", src)
		}
	}
}

// hidden loads a definition that is wrong and looks for the canary in what is said about it.
func hidden(t *testing.T, name, file, src string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	var opts definition.Options
	if strings.Contains(src, `variable "pin"`) {
		opts.Vars = map[string]string{"pin": canary}
	}
	_, diags := definition.Load([]string{file}, opts)
	encoded, err := json.Marshal(diags)
	if err != nil {
		t.Fatal(err)
	}
	if text := written(t, diags) + string(encoded); !diags.HasErrors() || strings.Contains(text, canary) {
		t.Errorf("%s: the secret is shown, or there is no error:\n%s", name, text)
	}
}
