package form

import (
	"context"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Session is the state of a session.
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

// Parent is the session from which a fork was created, and the last position that they share.
type Parent struct {
	ID  string `json:"id,omitempty"`
	Seq int64  `json:"seq"`
}

// SessionOf returns the state of a stored session.
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
	s.Title, err = TitleOf(ctx, turns.Store(), info)
	return s, err
}

// TitleOf returns a title made of the user's first message, or "" if there is none. A fork's title is made of its own
// first message, which tells it apart from its parent. A message that comes after many other events makes none.
func TitleOf(ctx context.Context, store session.Store, info session.Info) (string, error) {
	own, err := titleAfter(ctx, store, info.Key, info.ParentSeq)
	if err == nil && own == "" && info.ParentSeq > 0 {
		return titleAfter(ctx, store, info.Key, 0)
	}
	return own, err
}

// titleEvents is how many events after a position are read for a title.
const titleEvents = 200

// titleAfter returns a title made of the user's first message after a position, or "" if there is no message.
func titleAfter(ctx context.Context, store session.Store, key session.Key, after int64) (string, error) {
	for e, err := range store.Load(ctx, key, after) {
		if err != nil {
			return "", err
		}
		if e.Seq > after+titleEvents {
			break
		}
		if user, ok := e.Data.(*event.User); ok {
			return title(user.Unclaimed().PlainText()), nil
		}
	}
	return "", nil
}

// title returns the first 80 characters of a text on one line.
func title(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > 80 {
		line = append(line[:79], '…')
	}
	return string(line)
}

// Detail is the state of a session with its open questions, usage and values.
type Detail struct {
	Session
	Pending []Question     `json:"pending"`
	Usage   Usage          `json:"usage"`
	Values  map[string]any `json:"values"`
}

// DetailOf returns the current state of a session, or, if past is true, the state at the position at.
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
		err = d.apply(f)
	} else if err = turns.Runner().ReadFold(ctx, info.Key, d.apply); err == nil && d.Turn != "" {
		r, err = turns.Report(ctx, info.Key, d.Turn)
	}
	d.Pending = questionsOf(r, func(q *event.Relay) bool { return turns.MayDecide(ctx, info.Key, q) })
	return d, err
}

// Past returns the state of a session at a position, and the report of the last turn at that position.
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

// apply copies the usage and the values of a fold.
func (d *Detail) apply(f *session.Fold) error {
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

// File is a file that an agent or a tool created. Href is the path of its bytes, or "" if the log has only a URL.
type File struct {
	Seq int64 `json:"seq"`
	event.File
	Agent string    `json:"agent"`
	Time  time.Time `json:"time"`
	Href  string    `json:"href,omitempty"`
}

// FilesOf returns the files of the link's session, in the order of its log.
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
