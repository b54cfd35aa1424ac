package render

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
)

// JSONLines returns a sink that writes one event per line in its stored form.
func JSONLines(w io.Writer) Sink { return jsonLines{w} }

type jsonLines struct{ w io.Writer }

func (j jsonLines) Event(e *event.Event) { JSON(j.w, e) }
func (jsonLines) Finish()                {}

// JSON writes a value and a line break in one write, with escapes for control characters. It ignores errors of the
// writer; events always have a JSON form.
func JSON(w io.Writer, v any) { _ = encode(w, v, "") }

// IndentedJSON is like [JSON], with each level of the value on its own lines. It returns an error if the value is
// nested too deeply for that.
func IndentedJSON(w io.Writer, v any) error { return encode(w, v, "  ") }

func encode(w io.Writer, v any, indentation string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indentation)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(visible.JSON(b.Bytes()))
	return nil
}
