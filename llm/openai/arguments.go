package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

// This file joins the arguments of a call from their parts, and repairs them if the repair has one meaning. Otherwise
// it returns them unchanged, so that the model gets an error as the result of the call.

// isPlaceholder reports whether arguments are empty. Endpoints send such arguments for none, and before the actual
// ones.
func isPlaceholder(args string) bool {
	return slices.Contains([]string{"", "{}", "null", `""`, "[]", "None", `"{}"`, "{ }"}, strings.TrimSpace(args))
}

// canStart reports whether arguments can start with a text.
func canStart(args string) bool {
	args = strings.TrimLeft(args, " \t\r\n")
	return args != "" && strings.IndexByte(`{["nN`, args[0]) >= 0
}

func isObject(args string) bool {
	args = strings.TrimLeft(args, " \t\r\n")
	return args != "" && args[0] == '{' && json.Valid([]byte(args))
}

func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return a == b || json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// joined returns the arguments that the parts contain. The parts follow each other; or, if grows is set, each part
// contains all parts before it; or the last part repeats all others.
func joined(parts []string, grows bool) string {
	all := validText(strings.Join(parts, ""))
	if len(parts) == 0 || isObject(all) {
		return all
	}
	last := len(parts) - 1
	for ; last > 0 && (isPlaceholder(parts[last]) || parts[last] == parts[last-1] && isObject(parts[last])); last-- {
	}
	if last == 0 && isPlaceholder(parts[0]) {
		return "{}"
	}
	forms := []string{all, strings.Join(parts[:last+1], ""), parts[last], strings.Join(parts[:last], "")}
	switch {
	case grows:
		forms = forms[:3]
	case last > 0 && sameJSON(forms[2], forms[3]): // both are complete
		forms = []string{all, forms[1], forms[2]}
	default:
		forms = forms[:2]
	}
	for _, form := range forms {
		if args, ok := repaired(form); ok {
			return args
		}
	}
	return all
}

// aroundArguments matches what models and parsers leave around arguments.
var aroundArguments = lazyregexp.New("^(?:json\\b)?(?:\\s|</?[\\w|:.-]+>|```(?:json)?|\\[/?[A-Z_]+\\])*$")

// repaired returns the object that a text contains. It does not unpack an object in a string: that text has one
// meaning, and the log shows what the model wrote.
func repaired(text string) (string, bool) {
	if isObject(text) {
		return text, true
	}
	var inner string
	if json.Unmarshal([]byte(text), &inner) == nil {
		object, ok := repaired(inner)
		if isObject(inner) {
			object = text
		}
		return object, ok
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil && len(list) == 1 {
		return repaired(string(list[0]))
	}
	from := strings.IndexByte(text, '{')
	if from < 0 {
		return "", false
	}
	if all := html.UnescapeString(text); strings.HasPrefix(strings.TrimLeft(text[from+1:], whitespace), "&") && isObject(all) {
		return all, true // it was escaped as if it were a page
	}
	object, rest, ok := lenient(text[from:])
	for more := ok; more; { // the object may come twice
		again, next, valid := lenient(strings.TrimLeft(rest, whitespace))
		if more = valid && sameJSON(again, object); more {
			rest = next
		}
	}
	around := aroundArguments.Get()
	return object, ok && around.MatchString(text[:from]) && around.MatchString(strings.TrimLeft(rest, "} \t\r\n"))
}

// lenient reads an object as JSON if it was written as Python, with keys without quotes, with commas before brackets,
// or with control characters in its texts. It returns the text after it.
func lenient(text string) (object, rest string, ok bool) {
	var out []byte
	depth := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"' || c == '\'':
			if out, i = appendQuoted(out, text, i); i < 0 {
				return "", "", false
			}
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if kept := bytes.TrimRight(out, " \t\r\n"); bytes.HasSuffix(kept, []byte(",")) && !bytes.HasSuffix(kept, []byte("{,")) && !bytes.HasSuffix(kept, []byte("[,")) {
				out = kept[:len(kept)-1]
			}
		case depth > 0 && nameByte(c) && bytes.IndexByte([]byte("{,"), lastOf(out)) >= 0 && bareKey.Get().MatchString(text[i:]):
			n := strings.IndexByte(text[i:], ':')
			out = append(out, quote(strings.TrimSpace(text[i:i+n]))...)
			i += n - 1
			continue
		case c == 'T' || c == 'F' || c == 'N':
			for _, word := range [...][2]string{{"True", "true"}, {"False", "false"}, {"None", "null"}} {
				if strings.HasPrefix(text[i:], word[0]) {
					out = append(out, word[1][:len(word[1])-1]...)
					i += len(word[0]) - 1
					c = word[1][len(word[1])-1]
				}
			}
		}
		if out = append(out, c); depth == 0 {
			return string(out), text[i+1:], json.Valid(out)
		}
	}
	return "", "", false // the end of the object is missing
}

var bareKey = lazyregexp.New(`^[A-Za-z_][\w-]*\s*:`)

// lastOf returns the last byte that is not white space, or 0 if there is none.
func lastOf(out []byte) byte {
	if out = bytes.TrimRight(out, whitespace); len(out) > 0 {
		return out[len(out)-1]
	}
	return 0
}

// appendQuoted appends the text that starts at i as a JSON string. It returns the end of the text, or -1 if the text
// has no end.
func appendQuoted(out []byte, text string, i int) ([]byte, int) {
	quote := text[i]
	out = append(out, '"')
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c == quote:
			return append(out, '"'), i
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '\'' {
				out = append(out, c) // an escape that JSON does not have makes the object invalid
			}
			out = append(out, text[i])
		case c == '"':
			out = append(out, '\\', c)
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
		default:
			out = append(out, c)
		}
	}
	return out, -1
}
