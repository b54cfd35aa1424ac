package openaiapi

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxStops is the largest number of stop strings of a request. OpenAI takes four; frameworks send a few more.
const maxStops = 16

// stops cuts the text that a client gets before the first of its stop strings. The turn continues, and its log has the
// whole text. The zero value cuts nothing.
type stops struct {
	texts []string
	held  string // the end of the text so far, which may be the beginning of a stop string
	met   bool
}

// readStops reads the member stop: a text, or a list of texts.
func readStops(raw json.RawMessage, wrong *faults) stops {
	if len(raw) == 0 {
		return stops{}
	}
	if raw = bytes.TrimSpace(raw); raw[0] != '[' {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	var s stops
	if json.Unmarshal(raw, &s.texts) != nil || len(s.texts) > maxStops {
		wrong.addf("stop", "must be a text, or a list of at most %d texts", maxStops)
		return stops{}
	}
	for _, text := range s.texts {
		if text == "" {
			wrong.addf("stop", "has an empty text")
		}
	}
	return s
}

// pass adds text, and returns what the client gets now.
func (s *stops) pass(text string) string {
	if s.met {
		return ""
	}
	text = s.held + text
	first, end, hold := len(text)+1, 0, 0 // the end and the start of the stop string that is complete first
	for _, stop := range s.texts {
		at := strings.Index(text, stop)
		if after := at + len(stop); at >= 0 && (after < first || after == first && at < end) {
			first, end, s.met = after, at, true
		}
		for n := min(len(stop)-1, len(text)); n > hold; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				hold = n
			}
		}
	}
	if s.met {
		return text[:end]
	}
	s.held = text[len(text)-hold:]
	return text[:len(text)-hold]
}

// rest returns the text that was held back, when no more follows.
func (s *stops) rest() string {
	if s.met {
		return ""
	}
	text := s.held
	s.held = ""
	return text
}
