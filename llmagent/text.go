package llmagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// malformedTool is the recorded name of a call whose own name no endpoint would accept. The call's input keeps that
// name.
const malformedTool = "malformed_tool_name"

func toolName(name string) bool { return tools.CheckName(name) == nil }

// paragraphs joins two texts by an empty line. Either may be empty.
func paragraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// clean returns at most the first 1,000 bytes of a text, as valid UTF-8.
func clean(s string) string {
	if len(s) > 1000 {
		s = s[:1000]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// pieceLimit is the maximal length in bytes of a text that is shortened in the middle, which usually matters least.
const pieceLimit = 8000

// object encodes arguments as a JSON object. nil is the empty object.
func object(args any) (json.RawMessage, error) {
	if args == nil {
		return json.RawMessage("{}"), nil
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimSpace(b); b[0] != '{' {
		return nil, fmt.Errorf("%.40s is not a JSON object", b)
	}
	return b, nil
}

// modelErrorCode returns the code of a model's error.
func modelErrorCode(err error) string {
	var e *llm.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return "model_error"
}
