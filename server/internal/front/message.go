package front

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/live"
)

// MaxText is the limit of the text of a user's message, and MaxMetadata that of its metadata, in bytes. Images and
// files have no limit except that of the body.
const MaxText, MaxMetadata = 1 << 20, 16 << 10

// CheckText returns an error if the text of a message is too large.
func CheckText(c llm.Content) error {
	if len(c.PlainText()) > MaxText {
		return &Fault{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf("the text of the message is larger than the limit of %d bytes", MaxText)}
	}
	return nil
}

// MessageBody is a user's message in the body of a request. The content has the form of a user event.
type MessageBody struct {
	Content  json.RawMessage `json:"content"`
	Metadata json.RawMessage `json:"metadata"`
}

// Message returns the message and its metadata. The error is a [Fault] that names the invalid member.
func (b MessageBody) Message() (m llm.Message, metadata map[string]any, err error) {
	m.Role = llm.RoleUser
	switch {
	case len(b.Content) == 0:
		return m, nil, ProblemAt("content", "is missing")
	case b.Content[0] == '[':
		var fault *Fault
		if errors.As(Decode(b.Content, &[]struct {
			Type, Text, MediaType, URL, Name string
			Data                             string
		}{}), &fault) {
			for i := range fault.Problems {
				fault.Problems[i].Path = "content" + fault.Problems[i].Path
			}
			return m, nil, fault
		}
	case b.Content[0] != '"':
		return m, nil, ProblemAt("content", "must be a string or an array of parts")
	}
	if err = m.Content.UnmarshalJSON(b.Content); err == nil {
		err = llm.CheckUser(m)
	}
	if err != nil {
		return m, nil, ProblemAt("content", strings.TrimPrefix(err.Error(), "llm: "))
	}
	if err := CheckText(m.Content); err != nil {
		return m, nil, err
	}
	if len(b.Metadata) == 0 || string(b.Metadata) == "null" {
		return m, nil, nil
	}
	metadata, ok := event.DecodeValue(b.Metadata).(map[string]any)
	if !ok || len(b.Metadata) > MaxMetadata {
		return m, nil, ProblemAt("metadata", fmt.Sprintf("must be an object of at most %d bytes", MaxMetadata))
	}
	for key := range metadata {
		if live.Reserved(key) {
			return m, nil, ProblemAt("metadata."+key, "is reserved")
		}
	}
	return m, metadata, nil
}

// InvalidValue returns a fault with status 422, for a member that has the right type but a value that cannot be used.
func InvalidValue(path, message string) *Fault {
	f := ProblemAt(path, message)
	f.Status, f.Code = http.StatusUnprocessableEntity, "unfit"
	return f
}

// ProblemAt returns a [BadRequest] fault with one problem.
func ProblemAt(path, message string) *Fault {
	f := BadRequest("the body does not fit")
	f.Problems = []Problem{{path, message}}
	return f
}
