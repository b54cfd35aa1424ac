package form

import (
	"context"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/session"
)

// Session is how a session stands.
type Session struct {
	ID      string     `json:"id"`
	User    string     `json:"user"`
	Title   string     `json:"title"`
	Seq     int64      `json:"seq"`
	Created time.Time  `json:"created"`
	Updated time.Time  `json:"updated"`
	Active  string     `json:"active"`
	State   live.State `json:"state,omitempty"`
	Turn    string     `json:"turn,omitempty"`
	Parent  *Parent    `json:"parent,omitempty"`
}

// Parent is where a fork comes from.
type Parent struct {
	ID  string `json:"id,omitempty"`
	Seq int64  `json:"seq"`
}

// SessionOf says how a stored session stands.
func SessionOf(ctx context.Context, turns *live.Turns, info session.Info) (s Session, err error) {
	s = Session{ID: info.Key.ID, User: info.Key.User, Created: info.Created.UTC(), Updated: info.Updated.UTC()}
	if info.ParentSeq > 0 || info.Parent.ID != "" {
		s.Parent = &Parent{info.Parent.ID, info.ParentSeq}
	}
	now, err := turns.Look(ctx, info.Key)
	if err != nil {
		return s, err
	}
	s.Seq, s.Active, s.State, s.Turn = now.Seq, now.Agent, now.State, now.Turn
	// What a fork begins with is its parent's; what differs is what was said in it first.
	if s.Title, err = titleOf(ctx, turns.Store(), info.Key, info.ParentSeq); err == nil && s.Title == "" && s.Parent != nil {
		s.Title, err = titleOf(ctx, turns.Store(), info.Key, 0)
	}
	return s, err
}

// titleOf is the user's first words after a position of a session.
func titleOf(ctx context.Context, store session.Store, key session.Key, after int64) (string, error) {
	for e, err := range store.Load(ctx, key, after) {
		if err != nil {
			return "", err
		}
		if user, ok := e.Data.(*event.User); ok {
			return title(user.Unclaimed().PlainText()), nil
		}
	}
	return "", nil
}

// title makes one line of at most 80 characters of the first words.
func title(words string) string {
	line := []rune(strings.Join(strings.Fields(words), " "))
	if len(line) > 80 {
		line = append(line[:79], '…')
	}
	return string(line)
}

// Detail is a session with all that its log says about it.
type Detail struct {
	Session
	Pending []Question     `json:"pending"`
	Usage   Usage          `json:"usage"`
	Values  map[string]any `json:"values"`
}

// DetailOf says how a session stands, or stood when its log ended at a position.
func DetailOf(ctx context.Context, turns *live.Turns, info session.Info, past bool, at int64) (d Detail, err error) {
	if d.Session, err = SessionOf(ctx, turns, info); err != nil {
		return d, err
	}
	r := &live.Report{}
	if past {
		var f *session.Fold
		if f, r, err = Past(ctx, turns.Store(), info.Key, at); err != nil {
			return d, err
		}
		d.Seq, d.State, d.Turn, d.Updated = f.Seq, r.State, r.ID, f.Latest.UTC()
		d.Active = turns.Runner().Next(f).Agent.Name()
		err = d.take(f)
	} else if err = turns.Runner().Glance(ctx, info.Key, d.take); err == nil && d.Turn != "" {
		r, err = turns.Report(ctx, info.Key, d.Turn)
	}
	d.Pending = questionsOf(r, func(q *event.Relay) bool { return turns.MayDecide(ctx, info.Key, q) })
	return d, err
}

// Past reads a session as it was at a position, and the turn that was its last.
func Past(ctx context.Context, store session.Store, key session.Key, at int64) (*session.Fold, *live.Report, error) {
	f, r := &session.Fold{}, &live.Report{}
	for e, err := range store.Load(ctx, key, 0) {
		if err != nil {
			return nil, nil, err
		}
		if e.Seq > at {
			break
		}
		f.Apply(e)
		_, begins := e.Data.(*event.User)
		if begins {
			r = &live.Report{}
		}
		if begins || r.ID != "" {
			r.Apply(e)
		}
	}
	return f, r, nil
}

// take copies what a fold says.
func (d *Detail) take(f *session.Fold) error {
	for _, s := range f.Spent {
		d.Usage.InputTokens += s.Session.InputTokens
		d.Usage.OutputTokens += s.Session.OutputTokens
		d.Usage.CachedTokens += s.Session.CachedTokens
	}
	if d.Values = f.States(); d.Values == nil {
		d.Values = map[string]any{}
	}
	return nil
}

// File is a file that an agent or a tool has made.
type File struct {
	Seq int64 `json:"seq"`
	event.File
	Agent string    `json:"agent"`
	Time  time.Time `json:"time"`
	Href  string    `json:"href,omitempty"`
}

// FilesOf reads the files that the session of a link names, in the order of its log.
func FilesOf(ctx context.Context, store session.Store, l Link) ([]File, error) {
	files := []File{}
	for e, err := range store.Load(ctx, l.Key, 0) {
		if err != nil {
			return nil, err
		}
		if f, ok := e.Data.(*event.File); ok {
			one := File{e.Seq, *f, e.Agent, e.Time, ""}
			if f.Digest != "" {
				one.Href = l.To("files", f.Digest)
			}
			files = append(files, one)
		}
	}
	return files, nil
}
