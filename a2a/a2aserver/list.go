package a2aserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/session"
)

// mark is what a list must know of a task: enough to filter and to sort it.
type mark struct {
	id    sdk.TaskID
	state sdk.TaskState
	at    time.Time // of the state
}

func (m mark) compare(o mark) int { // newest first
	return cmp.Or(o.at.Compare(m.at), cmp.Compare(o.id, m.id))
}

// ledgers keeps the marks of sessions that were listed lately, so that a list reads
// only what is new in them.
type ledgers struct {
	mu   sync.Mutex
	byID map[session.Key]*ledger
}

// maxLedgers bounds the sessions whose marks are kept.
const maxLedgers = 4096

// ledger is the marks of one session's tasks, as far as its log was read.
type ledger struct {
	mu    sync.Mutex
	seq   int64
	last  agent.Event // the one at seq
	marks []mark
	open  *projection // of the last task
}

// lately returns the marks of a session's last n tasks, the oldest first.
func (s *served) lately(ctx context.Context, key session.Key, n int) (last []mark, err error) {
	err = s.look(ctx, key, func(marks []mark) { last = slices.Clone(marks[max(0, len(marks)-n):]) })
	return last, err
}

// look shows the marks of a session's tasks, the oldest first. They change when show has
// returned.
func (s *served) look(ctx context.Context, key session.Key, show func(marks []mark)) error {
	s.ledgers.mu.Lock()
	l := s.ledgers.byID[key]
	if l == nil {
		if len(s.ledgers.byID) >= maxLedgers {
			for k := range s.ledgers.byID { // any: it can be read again
				delete(s.ledgers.byID, k)
				break
			}
		}
		l = &ledger{}
		s.ledgers.byID[key] = l
	}
	s.ledgers.mu.Unlock()

	l.mu.Lock()
	defer l.mu.Unlock()
	same, err := l.read(ctx, s.store, key, max(0, l.seq-1))
	if err == nil && !same { // the session was deleted, and perhaps begun anew
		l.seq, l.last, l.marks, l.open = 0, agent.Event{}, nil, nil
		_, err = l.read(ctx, s.store, key, 0)
	}
	if err == nil {
		show(l.marks)
	}
	return err
}

// read takes in the events after a position. It reports false if the last one that is
// known, which is among them, is no longer there.
func (l *ledger) read(ctx context.Context, store session.Store, key session.Key, after int64) (same bool, err error) {
	same = l.seq == 0
	for e, err := range store.Load(ctx, key, after) {
		switch {
		case err != nil:
			return false, err
		case same:
			l.apply(key, e)
		case e.Seq == l.seq && e.ID == l.last.ID && e.Time.Equal(l.last.Time):
			same = true
		default:
			return false, nil
		}
	}
	return same, nil
}

func (l *ledger) apply(key session.Key, e *agent.Event) {
	l.seq, l.last = e.Seq, *e
	if l.open != nil {
		l.open.apply(e)
		l.marks[len(l.marks)-1] = markOf(l.open)
	}
	if _, ok := e.Data.(*agent.User); ok && (l.open == nil || l.open.over) {
		l.open = newProjection(key, e)
		l.open.outline = true
		l.open.apply(e)
		l.marks = append(l.marks, markOf(l.open))
	}
}

func markOf(p *projection) mark {
	return mark{p.task.ID, p.task.Status.State, *p.task.Status.Timestamp}
}

// ListTasks implements a2asrv.RequestHandler (A2A 1.0, section 3.1.4): the caller's
// tasks, the one whose state changed last first, a page at a time. A page goes on
// after the last task of the one before, so that new tasks shift nothing; it ends early
// when its tasks hold much, so that no answer grows without bound.
func (h handler) ListTasks(ctx context.Context, req *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	s, err := h.tenant(req.Tenant)
	if err != nil {
		return nil, err
	}
	size := cmp.Or(req.PageSize, 50)
	if size < 1 || size > 100 {
		return nil, sdk.NewError(sdk.ErrInvalidParams, "pageSize is not between 1 and 100")
	}
	if err := checkHistory(req.HistoryLength); err != nil {
		return nil, err
	}
	if !knownState(req.Status) {
		return nil, sdk.NewError(sdk.ErrInvalidParams, "status is not a state of tasks")
	}
	after, err := readToken(req.PageToken)
	if err != nil {
		return nil, err
	}
	p := page{size: size, after: after, first: req.PageToken == ""}
	if err := s.collect(ctx, req, &p); err != nil {
		return nil, h.told(ctx, "ListTasks", err)
	}
	res := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, TotalSize: p.total, PageSize: size}
	marks := p.marks
	if len(marks) > size {
		marks = marks[:size]
		res.NextPageToken = token(marks[size-1])
	}
	held := 0
	for i, m := range marks {
		f, err := s.find(ctx, m.id, wants(ctx))
		if err != nil {
			if errors.Is(err, sdk.ErrTaskNotFound) {
				continue // deleted meanwhile
			}
			return nil, h.told(ctx, "ListTasks", err)
		}
		t := f.snapshot(req.HistoryLength)
		if !req.IncludeArtifacts {
			t.Artifacts = nil
		} else if t.Artifacts == nil {
			t.Artifacts = []*sdk.Artifact{}
		}
		res.Tasks = append(res.Tasks, t)
		if held += weight(t); held > maxPage && i < len(marks)-1 {
			res.NextPageToken = token(m)
			break
		}
	}
	return res, nil
}

// maxPage is how many bytes the tasks of a page hold, but for the last one's.
const maxPage = 8 << 20

// weight is about how many bytes a task has on the wire.
func weight(t *sdk.Task) int {
	n := 0
	parts := func(parts sdk.ContentParts) {
		for _, p := range parts {
			switch c := p.Content.(type) {
			case sdk.Text:
				n += len(c)
			case sdk.Raw:
				n += base64.StdEncoding.EncodedLen(len(c))
			case sdk.URL:
				n += len(c)
			case sdk.Data:
				data, _ := json.Marshal(c.Value) // it was JSON in the log
				n += len(data)
			}
		}
	}
	for _, a := range t.Artifacts {
		parts(a.Parts)
	}
	for _, m := range t.History {
		parts(m.Parts)
	}
	return n
}

// page is what a list shows of all the tasks that it is about.
type page struct {
	size  int
	after mark // the last one of the page before
	first bool // there is none before
	total int
	marks []mark // the best so far, and one more if there are others behind them
}

// add takes in a task, in any order.
func (p *page) add(m mark) {
	p.total++
	if !p.first && m.compare(p.after) <= 0 || len(p.marks) > p.size && m.compare(p.marks[p.size]) >= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(p.marks, m, mark.compare)
	p.marks = slices.Insert(p.marks, i, m)
	p.marks = p.marks[:min(len(p.marks), p.size+1)]
}

// collect adds the caller's tasks that a list asks for to a page.
func (s *served) collect(ctx context.Context, req *sdk.ListTasksRequest, p *page) error {
	infos, err := s.store.List(ctx, s.key(ctx, req.ContextID), session.Page{})
	if err != nil {
		return err
	}
	for _, info := range infos {
		err := s.look(ctx, info.Key, func(marks []mark) {
			for _, m := range slices.Backward(marks) { // the newest, which are most likely on the page
				if (req.Status == "" || m.state == req.Status) && (req.StatusTimestampAfter == nil || !m.at.Before(*req.StatusTimestampAfter)) {
					p.add(m)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// token is the place of a task in a list.
func token(m mark) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(m.at.UnixNano(), 36) + " " + string(m.id)))
}

func readToken(s string) (mark, error) {
	if s == "" {
		return mark{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(s)
	at, id, ok := strings.Cut(string(data), " ")
	nanos, numErr := strconv.ParseInt(at, 36, 64)
	if err != nil || !ok || numErr != nil {
		return mark{}, sdk.NewError(sdk.ErrInvalidParams, "pageToken is none that this server gave")
	}
	return mark{id: sdk.TaskID(id), at: time.Unix(0, nanos)}, nil
}

func knownState(s sdk.TaskState) bool {
	switch s {
	case "", sdk.TaskStateSubmitted, sdk.TaskStateWorking, sdk.TaskStateInputRequired, sdk.TaskStateAuthRequired,
		sdk.TaskStateCompleted, sdk.TaskStateFailed, sdk.TaskStateCanceled, sdk.TaskStateRejected:
		return true
	}
	return false
}
