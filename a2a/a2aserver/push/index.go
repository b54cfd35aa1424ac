package push

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// admit returns the config that the new one replaces. If there is none, it checks that the limits allow one more. It
// also returns expired configs, which the caller must delete.
func (p *Sender) admit(t Task, id string) (dropped []*webhook, old *webhook, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return nil, nil, fmt.Errorf("push: the server is closed: %w", sdk.ErrServerError)
	}
	hooks := p.tasks[t]
	if i := slices.IndexFunc(hooks, func(w *webhook) bool { return w.id == id }); i >= 0 {
		old = hooks[i]
	}
	now := p.now()
	own := p.callers[t.by()]
	if now.Sub(p.swept) >= p.opts.retain/4 {
		p.swept = now
		for _, hooks := range p.tasks {
			for _, w := range hooks {
				if ended := w.current().Ended; w != old && !ended.IsZero() && now.Sub(ended) > p.opts.retain {
					dropped = append(dropped, w)
				}
			}
		}
	}
	if old == nil && len(own) >= p.opts.perCaller { // then delete configs of finished tasks before they expire
		for w := range own {
			if !w.open() && !slices.Contains(dropped, w) {
				dropped = append(dropped, w)
			}
		}
	}
	gone := func(of func(Task) bool) (n int) {
		for _, w := range dropped {
			if of(w.task) {
				n++
			}
		}
		return n
	}
	switch {
	case old != nil:
	case len(hooks)-gone(func(o Task) bool { return o == t }) >= p.opts.perTask:
		return nil, nil, invalid(fmt.Sprintf("the task already has %d of them, the maximum", len(hooks)))
	case len(own)-gone(func(o Task) bool { return o.by() == t.by() }) >= p.opts.perCaller:
		return nil, nil, invalid(fmt.Sprintf("the caller already has %d of them, the maximum: delete some", len(own)))
	}
	return dropped, old, nil
}

// hooks returns the configs of a task, oldest first. Changes replace the slice, so it may be read without the lock.
func (p *Sender) hooks(t Task) []*webhook {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.tasks[t]
}

func (p *Sender) find(t Task, id string) *webhook {
	for _, w := range p.hooks(t) {
		if w.id != id {
			continue
		}
		if ended := w.current().Ended; !ended.IsZero() && p.now().Sub(ended) > p.opts.retain {
			return nil
		}
		return w
	}
	return nil
}

func (p *Sender) index(r Record) {
	w := newWebhook(p.ctx, r, p.opts.queue)
	p.mu.Lock()
	defer p.mu.Unlock()
	hooks := append(slices.Clone(p.tasks[w.task]), w)
	slices.SortFunc(hooks, func(a, b *webhook) int { return a.current().compare(b.current()) })
	p.tasks[w.task] = hooks
	if p.callers[w.task.by()] == nil {
		p.callers[w.task.by()] = make(map[*webhook]struct{})
	}
	p.callers[w.task.by()][w] = struct{}{}
	if p.swept.IsZero() {
		p.swept = p.now()
	}
}

func (p *Sender) forget(w *webhook) {
	w.drop()
	p.mu.Lock()
	defer p.mu.Unlock()
	hooks := slices.DeleteFunc(slices.Clone(p.tasks[w.task]), func(o *webhook) bool { return o == w })
	if p.tasks[w.task] = hooks; len(hooks) == 0 {
		delete(p.tasks, w.task)
	}
	if delete(p.callers[w.task.by()], w); len(p.callers[w.task.by()]) == 0 {
		delete(p.callers, w.task.by())
	}
}

// ended records that the webhook has received the end of its task.
func (p *Sender) ended(w *webhook) {
	p.writing.Lock()
	defer p.writing.Unlock()
	r := w.current()
	if !r.Ended.IsZero() || p.find(w.task, w.id) != w {
		return
	}
	r.Ended = p.now().UTC()
	if p.opts.Store != nil {
		if err := p.opts.Store.Put(p.ctx, r); err != nil {
			p.log.Warn("the end of a push notification config cannot be stored: its webhook may get updates of the task again",
				"task", w.task.Task, "config", w.id, "error", err)
			return
		}
	}
	w.replace(r)
}

// compare compares two records for lists, in which the older record comes first.
func (r Record) compare(o Record) int {
	return cmp.Or(r.Created.Compare(o.Created), strings.Compare(r.Config.ID, o.Config.ID))
}

// token returns a page token for the place after a record in the list of its task.
func (r Record) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(r.Created.UnixNano(), 36) + "." + r.Config.ID))
}

// readToken returns a record for the place of a page token, or the zero record for "".
func readToken(token string) (r Record, err error) {
	if token == "" {
		return r, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	created, id, ok := strings.Cut(string(b), ".")
	n, err2 := strconv.ParseInt(created, 36, 64)
	if err != nil || err2 != nil || !ok {
		return r, sdk.NewError(sdk.ErrInvalidParams, "the pageToken is invalid: use the nextPageToken of the previous page")
	}
	r.Created, r.Config.ID = time.Unix(0, n), id
	return r, nil
}
