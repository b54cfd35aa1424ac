package a2aserver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/session"
)

// bookmark is the place where a page of a list ends and the next one continues. The client keeps it and may have
// changed it, so it contains only places in lists that the client may see.
type bookmark struct {
	// At and Task identify the last task that was shown, and Shown counts the tasks shown so far. A log from elsewhere
	// can contain times that do not fit into Unix nanoseconds.
	At    int64      `json:"t,omitempty"` // in Unix seconds
	Nano  int64      `json:"m,omitempty"` // nanoseconds within the second
	Task  sdk.TaskID `json:"i,omitempty"`
	Shown int        `json:"n,omitempty"`
	// Top is the first session at the time when the list began. Sessions between From and Read were visited and must be
	// visited again. All tasks of sessions before From were shown, except those of Late.
	Top  sessionPosition `json:"a,omitzero"`
	From sessionPosition `json:"f,omitzero"`
	Read sessionPosition `json:"r,omitzero"`
	Late []string        `json:"l,omitempty"` // context ids
}

// maxLate limits the length of a bookmark.
const maxLate = 16

// sessionPosition is the position of one of the caller's sessions in the store's list.
type sessionPosition struct {
	Updated int64  `json:"u"` // in Unix nanoseconds
	Context string `json:"c"`
}

func positionOf(i session.Info) sessionPosition {
	return sessionPosition{i.Updated.UnixNano(), i.Key.ID}
}

// compare returns a negative number if s comes before o in lists. The zero position comes before all others.
func (s sessionPosition) compare(o sessionPosition) int {
	if s == (sessionPosition{}) || o == (sessionPosition{}) {
		return cmp.Compare(s.Context, o.Context)
	}
	return cmp.Or(cmp.Compare(o.Updated, s.Updated), cmp.Compare(s.Context, o.Context))
}

func (b bookmark) mark() mark { return mark{id: b.Task, at: time.Unix(b.At, b.Nano)} }

// shown reports whether a task was shown, provided that its session was visited.
func (b bookmark) shown(m mark) bool { return b.Task != "" && m.compare(b.mark()) <= 0 }

// bookmark returns the bookmark for a page that shows these tasks.
func (w *walk) bookmark(shown []mark) bookmark {
	b := w.from
	b.Top, b.Late = w.top, nil
	b.Shown += len(shown)
	if len(shown) > 0 {
		last := shown[len(shown)-1]
		b.At, b.Nano, b.Task = last.at.Unix(), int64(last.at.Nanosecond()), last.id
	}
	for _, v := range w.late {
		if v.found && !b.shown(v.last) {
			b.Late = append(b.Late, v.at.Context)
		}
	}
	// Sessions of which the page shows nothing count as not visited.
	read := 0
	for i, v := range w.visits {
		if v.found && b.shown(v.first) || read == i && !v.found {
			read = i + 1
		}
	}
	if read > 0 && b.Read.compare(w.visits[read-1].at) < 0 {
		b.Read = w.visits[read-1].at
	}
	for _, v := range w.visits {
		if b.Read.compare(v.at) < 0 {
			break
		}
		if v.found && !b.shown(v.last) {
			if len(b.Late) >= maxLate {
				break
			}
			b.Late = append(b.Late, v.at.Context)
		}
		b.From = v.at
	}
	return b
}

func (b bookmark) token() string {
	data, _ := json.Marshal(b) // numbers and strings always have a JSON form
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseCursor(token string) (b bookmark, err error) {
	if token == "" {
		return b, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	contexts := append([]string{b.Top.Context, cmp.Or(b.From.Context, "-"), cmp.Or(b.Read.Context, "-")}, b.Late...)
	wrong := slices.ContainsFunc(contexts, func(id string) bool { return session.CheckKey(session.Key{App: "-", User: "-", ID: id}) != nil })
	if err != nil || wrong || b.Shown < 0 || b.Shown > 1<<30 || len(b.Late) > maxLate {
		return bookmark{}, sdk.NewError(sdk.ErrInvalidParams, "the pageToken is invalid: use the nextPageToken of the previous page")
	}
	return b, nil
}
