package definition

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The parser and the evaluator are recursive without a limit of their own, and a stack that overflows ends the
// process: nothing can recover from it. So texts are lexed first and refused beyond these limits, which no honest file
// meets.
const (
	maxNesting   = 100   // brackets, templates and blocks that are open at once
	maxOperators = 1_000 // operators of one expression, each of which is a level of the tree
	maxJSONDepth = 1_000 // of a document given to jsondecode
)

// checkNesting refuses a file that would overflow the stack; nil where it would not.
func checkNesting(name string, src []byte) *hcl.Diagnostic {
	if isJSON(name) {
		return checkJSONNesting(name, src)
	}
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	return checkTokens(tokens)
}

// checkTemplate does the same for the text of a template.
func checkTemplate(name string, src []byte) *hcl.Diagnostic {
	tokens, _ := hclsyntax.LexTemplate(src, name, hcl.InitialPos)
	return checkTokens(tokens)
}

// level is one open bracket, template or block.
type level struct {
	lines     bool // whether a line break ends an expression here, as it does in blocks and objects
	operators int  // since the last separator
}

// checkTokens counts what is open, and the operators since the last separator at every level.
func checkTokens(tokens hclsyntax.Tokens) *hcl.Diagnostic {
	levels := []level{{lines: true}}
	for _, t := range tokens {
		top := &levels[len(levels)-1]
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenTemplateControl,
			hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			top.operators++
			levels = append(levels, level{lines: t.Type == hclsyntax.TokenOBrace})
		case hclsyntax.TokenTemplateInterp:
			levels = append(levels, level{})
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			levels = levels[:max(1, len(levels)-1)]
		case hclsyntax.TokenComma:
			top.operators = 0
		case hclsyntax.TokenNewline:
			if top.lines {
				top.operators = 0
			}
		case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit,
			hclsyntax.TokenComment, hclsyntax.TokenEqual, hclsyntax.TokenDot, hclsyntax.TokenEOF:
		default:
			top.operators++
		}
		if len(levels) > maxNesting+1 {
			return nestingError(t.Range, fmt.Sprintf("More than %d brackets, templates and blocks are open here.", maxNesting))
		}
		if levels[len(levels)-1].operators > maxOperators {
			return nestingError(t.Range, fmt.Sprintf("This expression has more than %d operators.", maxOperators))
		}
	}
	return nil
}

func nestingError(r hcl.Range, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Nesting too deep", Subject: &r,
		Detail: detail + " The nesting is too deep to be read safely; take it apart with locals.",
	}
}

// checkJSONNesting counts open arrays and objects, and looks into every string that holds a template.
func checkJSONNesting(name string, src []byte) *hcl.Diagnostic {
	if offset, deep := jsonTooDeep(src, maxNesting); deep {
		return nestingError(rangeAt(name, src, offset), fmt.Sprintf("More than %d arrays and objects are open here.", maxNesting))
	}
	decoder := stdjson.NewDecoder(bytes.NewReader(src))
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil // the end, or a syntax error that the parser reports with its place
		}
		text, ok := token.(string)
		if !ok {
			continue
		}
		if d := checkTemplate(name, []byte(text)); d != nil {
			place := rangeAt(name, src, int(decoder.InputOffset()))
			d.Subject = &place
			return d
		}
	}
}

// jsonTooDeep tells whether more than limit arrays and objects are open at once, and where. It reads bytes only, so
// that it needs no stack.
func jsonTooDeep(src []byte, limit int) (offset int, deep bool) {
	depth, quoted := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > limit {
				return i, true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return 0, false
}

// rangeAt is the place of one byte.
func rangeAt(name string, src []byte, offset int) hcl.Range {
	offset = min(offset, len(src))
	line := 1 + bytes.Count(src[:offset], []byte("\n"))
	column := offset - bytes.LastIndexByte(src[:offset], '\n')
	start := hcl.Pos{Line: line, Column: column, Byte: offset}
	end := hcl.Pos{Line: line, Column: column + 1, Byte: min(offset+1, len(src))}
	return hcl.Range{Filename: name, Start: start, End: end}
}
