package front

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
)

// MaxText bounds the text of a user's message, and MaxMetadata its metadata, in bytes. Only the limit of bodies bounds images and files.
const MaxText, MaxMetadata = 1 << 20, 16 << 10

// CheckText returns an error if the text of a message is too large.
func CheckText(c llm.Content) error {
	if len(c.PlainText()) > MaxText {
		return &Fault{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Detail: fmt.Sprintf("the text of the message is larger than the limit of %d bytes", MaxText)}
	}
	return nil
}

// Words are what a user says, as members of a request. The content is written as in a user event.
type Words struct {
	Content  json.RawMessage `json:"content"`
	Metadata json.RawMessage `json:"metadata"`
}

// Message reads the words, and what is kept with them. The error says which member is wrong.
func (w Words) Message() (m llm.Message, metadata map[string]any, err error) {
	m.Role = llm.RoleUser
	switch {
	case len(w.Content) == 0:
		return m, nil, ProblemAt("content", "is missing")
	case w.Content[0] == '[':
		var fault *Fault
		if errors.As(Decode(w.Content, &[]struct {
			Type, Text, MediaType, URL, Name string
			Data                             string
		}{}), &fault) {
			for i := range fault.Problems {
				fault.Problems[i].Path = "content" + fault.Problems[i].Path
			}
			return m, nil, fault
		}
	case w.Content[0] != '"':
		return m, nil, ProblemAt("content", "must be a string or an array of parts")
	}
	if err = m.Content.UnmarshalJSON(w.Content); err == nil {
		err = llm.CheckUser(m)
	}
	if err != nil {
		return m, nil, ProblemAt("content", strings.TrimPrefix(err.Error(), "llm: "))
	}
	if err := CheckText(m.Content); err != nil {
		return m, nil, err
	}
	if len(w.Metadata) == 0 || string(w.Metadata) == "null" {
		return m, nil, nil
	}
	metadata, ok := event.DecodeValue(w.Metadata).(map[string]any)
	if !ok || len(w.Metadata) > MaxMetadata {
		return m, nil, ProblemAt("metadata", fmt.Sprintf("must be an object of at most %d bytes", MaxMetadata))
	}
	for key := range metadata {
		if live.Reserved(key) {
			return m, nil, ProblemAt("metadata."+key, "is reserved")
		}
	}
	return m, metadata, nil
}

// Unfit is [ProblemAt] for a member whose form is right and whose value cannot be used. The status is 422.
func Unfit(path, message string) *Fault {
	f := ProblemAt(path, message)
	f.Status, f.Code = http.StatusUnprocessableEntity, "unfit"
	return f
}

// ProblemAt is a bad request with one mistake.
func ProblemAt(path, message string) *Fault {
	f := BadRequest("the body does not fit")
	f.Problems = []Problem{{path, message}}
	return f
}
