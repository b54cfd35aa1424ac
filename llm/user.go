package llm

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// CheckUser returns an error if a message cannot be sent as the user's: if it has another role, neither text nor media,
// text or a name that is not valid UTF-8, or parts that users do not send. Media must have a kind, and either data or a
// URL.
func CheckUser(m Message) error {
	if m.Role != RoleUser {
		return fmt.Errorf("the message has the role %q, not user", m.Role)
	}
	if !utf8.ValidString(m.Text) {
		return errors.New("the message is not valid UTF-8")
	}
	empty := strings.TrimSpace(m.Text) == ""
	for i, p := range m.Parts {
		switch p := p.(type) {
		case TextPart:
			if !utf8.ValidString(p.Text) {
				return fmt.Errorf("part %d of the message is not valid UTF-8", i)
			}
			empty = empty && strings.TrimSpace(p.Text) == ""
		case Media:
			if (p.Kind != MediaImage && p.Kind != MediaFile && p.Kind != MediaAudio) || (len(p.Data) == 0) == (p.URL == "") {
				return fmt.Errorf("part %d of the message needs a kind, and either data or a URL", i)
			}
			if !utf8.ValidString(p.Name) || !utf8.ValidString(p.MediaType) || !utf8.ValidString(p.URL) {
				return fmt.Errorf("part %d of the message has a name, media type or URL that is not valid UTF-8", i)
			}
			empty = false
		default:
			return fmt.Errorf("part %d of the message is a %T: users send text, images, audio and files", i, p)
		}
	}
	if empty {
		return errors.New("the message is empty")
	}
	return nil
}

// Stored returns the content in the form that logs store: Text becomes the first part if there are parts, as in JSON,
// so that the same content is sent after it is read back. It copies the slice of parts, so the caller may change its
// own.
func (c Content) Stored() Content {
	if len(c.Parts) == 0 {
		return Content{Text: c.Text}
	}
	parts := make([]Part, 0, len(c.Parts)+1)
	if c.Text != "" {
		parts = append(parts, TextPart{Text: c.Text})
	}
	return Content{Parts: append(parts, c.Parts...)}
}
