package server

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/form"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// search selects sessions of a list. The zero value selects all sessions.
type search struct {
	terms        []string // in lower case; all must occur
	agent        string
	since, until time.Time
}

// searchProgress is the number of sessions that a search read, and when the last of them changed.
type searchProgress struct {
	Sessions int       `json:"sessions"`
	Updated  time.Time `json:"updated,omitzero"`
}

func searchOf(query url.Values) (s search, err error) {
	s.agent, s.terms = query.Get("agent"), termsOf(query.Get("q"))
	for name, at := range map[string]*time.Time{"since": &s.since, "until": &s.until} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		if *at, err = time.Parse(time.RFC3339, text); err != nil {
			return s, front.BadRequest("%s must be a time such as 2026-03-01T00:00:00Z, not %.40q", name, text)
		}
	}
	return s, nil
}

// termsOf returns the words and the quoted phrases of a text, in lower case. A quote without an end lasts to the end of
// the text.
func termsOf(text string) (terms []string) {
	for i, part := range strings.Split(strings.ToLower(text), `"`) {
		switch {
		case i%2 == 0:
			terms = append(terms, strings.Fields(part)...)
		case strings.TrimSpace(part) != "":
			terms = append(terms, strings.Join(strings.Fields(part), " "))
		}
	}
	return terms
}

func (s search) isZero() bool {
	return len(s.terms) == 0 && s.agent == "" && s.since.IsZero() && s.until.IsZero()
}

// matches reports whether a session fits the search. The terms may occur in its id, user, agent and title, and in the
// first and the last text of its conversation.
func (s search) matches(ctx context.Context, store session.Store, info session.Info, one form.Session) (bool, error) {
	if s.agent != "" && s.agent != one.Active || !s.until.IsZero() && info.Updated.After(s.until) {
		return false, nil
	}
	text := strings.ToLower(strings.Join([]string{one.ID, one.User, one.Active, one.Title}, "\n"))
	if containsAll(s.terms, text) {
		return true, nil
	}
	for _, log := range []iter.Seq2[*event.Event, error]{store.Load(ctx, info.Key, 0), session.Backward(ctx, store, info.Key, 0)} {
		for e, err := range log {
			if err != nil {
				return false, err
			}
			if t, ok := textIn(e); ok {
				text += "\n" + t
				break
			}
		}
	}
	return containsAll(s.terms, text), nil
}

// textIn returns the text of a user or an agent in the conversation itself, on one line and in lower case.
func textIn(e *event.Event) (text string, ok bool) {
	switch d := e.Data.(type) {
	case *event.User:
		text = d.Unclaimed().PlainText()
	case *event.Text:
		text = d.Content
	}
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	return text, text != "" && e.Scope == ""
}

func containsAll(terms []string, text string) bool {
	for _, term := range terms {
		if !strings.Contains(text, term) {
			return false
		}
	}
	return true
}
