package openaiapi

import (
	"encoding/json"
	"net/http"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/server/internal/turntext"
	"github.com/agentarbor/arbor/server/live"
)

// readFormat reads the format of the answer into the metadata of the message: the response_format of a chat completion,
// or the text.format of a response.
func readFormat(raw json.RawMessage, path string, metadata map[string]any, wrong *faults) {
	type form struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
		Strict bool            `json:"strict"`
	}
	var f struct {
		form
		Type    string `json:"type"`
		Wrapped *form  `json:"json_schema"`
	}
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if json.Unmarshal(raw, &f) != nil {
		wrong.addf(path, "must be an object with a type")
		return
	}
	schemaAt := path + ".schema"
	if f.Wrapped != nil {
		f.form, schemaAt = *f.Wrapped, path+".json_schema.schema"
	}
	w := &llmagent.ClientOutput{Schema: f.Schema, Strict: f.Strict}
	switch {
	case f.Type == "text":
		return
	case f.Type == "json_object":
		w = &llmagent.ClientOutput{}
	case f.Type != "json_schema":
		wrong.addf(path+".type", "is %.40q; it must be text, json_object or json_schema", f.Type)
		return
	case len(f.Schema) == 0:
		wrong.addf(schemaAt, "is missing")
		return
	}
	if err := w.CheckSchema(); err != nil {
		wrong.addf(schemaAt, "cannot be used: %s", err)
		return
	}
	metadata[llmagent.ClientOutputKey] = event.DecodeValue(event.EncodeJSON(w))
}

// errNoOutput is the error of a turn that ended without an answer in the requested format.
var errNoOutput = &front.Fault{Status: http.StatusBadGateway, Code: responses.NoOutput, Detail: responses.NoOutputMessage}

// noOutput reports whether a turn has ended without an answer in the requested format.
func noOutput(rep *live.Report, shown []byte) bool {
	return rep.State == live.Done && len(shown) == 0 && turntext.WantedBy(rep.User) != nil && rep.FinishReason != event.FinishReasonContentFilter
}
