package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
)

// readInput returns the input as JSON in one line.
func (g *graphRun) readInput() (json.RawMessage, error) {
	if g.given("text") {
		if !utf8.ValidString(g.text) {
			return nil, usagef("--text is not valid UTF-8")
		}
		return event.EncodeJSON(g.text), nil
	}
	data, from := []byte(g.input), "--input"
	var err error
	switch name, file := strings.CutPrefix(g.input, "@"); {
	case file:
		from = name
		var f *os.File
		if f, err = os.Open(name); err == nil {
			data, err = io.ReadAll(io.LimitReader(f, maxMessage+1))
			_ = f.Close()
		}
	case !g.given("input") && (g.p.Stdin == nil || isTerminal(g.p.Stdin)):
		return nil, usagef("the input is missing: give --input JSON or --text TEXT, or pipe JSON to standard input")
	case !g.given("input"), g.input == "-":
		from = "standard input"
		if g.p.Stdin == nil {
			return nil, usagef("there is no standard input")
		}
		data, err = io.ReadAll(io.LimitReader(g.p.Stdin, maxMessage+1))
	}
	if err != nil {
		return nil, usagef("the input cannot be read: %w", err)
	}
	return checkInput(data, from)
}

// checkInput refuses what is no JSON, and says how a text is given.
func checkInput(data []byte, from string) (json.RawMessage, error) {
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case len(data) > maxMessage:
		return nil, usagef("%s: the input is longer than %d MiB", from, maxMessage>>20)
	case text == "":
		return nil, usagef("%s: the input is empty: give JSON, such as '{}', or --text TEXT", from)
	case !utf8.ValidString(text):
		return nil, usagef("%s: the input is not valid UTF-8", from)
	}
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, usagef("%s is not JSON (%w): a text needs quotes of its own, such as '\"%s\"', or --text TEXT", from, err, render.Cut(visible.Line(strings.Trim(text, `"`)), 20))
	}
	return event.EncodeJSON(raw), nil
}
