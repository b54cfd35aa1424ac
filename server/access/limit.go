package access

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limit limits how many things, such as streams, requests or turns, each user and all users together have at the same
// time. It is safe for concurrent use. The zero value is not usable; see [NewLimit].
type Limit struct {
	user, all int
	mu        sync.Mutex
	n         map[string]int
	total     int
	waiting   []*waiter // the waiting calls of Await, in order
}

// waiter is a waiting call of Await. Leave closes its channel when it counts the call.
type waiter struct {
	user    string
	counted chan struct{}
}

// NewLimit returns a limit for each user and for all users together. 0 or less is 1,024 for user, and no limit for all.
func NewLimit(user, all int) *Limit {
	if user <= 0 {
		user = 1024
	}
	return &Limit{user: user, all: all, n: make(map[string]int)}
}

// LimitError reports that a user, or all users together, have reached a [Limit].
type LimitError struct {
	// Max is the limit.
	Max int
	// All reports that it is the limit of all users together.
	All bool
}

func (e *LimitError) Error() string {
	if e.All {
		return fmt.Sprintf("the server has reached its limit of %d for all users: retry later", e.Max)
	}
	return fmt.Sprintf("the user has reached the limit of %d: retry later", e.Max)
}

// Enter counts one thing of a user, until the caller calls [Limit.Leave]. If the limit is reached, Enter counts nothing
// and returns a *[LimitError].
func (l *Limit) Enter(user string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter(user)
}

// enter is Enter for a caller that holds the mutex.
func (l *Limit) enter(user string) error {
	switch {
	case l.all > 0 && l.total >= l.all:
		return &LimitError{Max: l.all, All: true}
	case l.n[user] >= l.user:
		return &LimitError{Max: l.user}
	}
	l.n[user]++
	l.total++
	return nil
}

// patience is how long Await waits. A client receives the end of a stream or a turn before the server calls Leave for it.
// The client may start the next one in this time.
const patience = 250 * time.Millisecond

// Await is [Limit.Enter] that waits for a [Limit.Leave] for up to 250 ms if the limit is reached. The error is a
// *[LimitError], or the cause of ctx.
func (l *Limit) Await(ctx context.Context, user string) error {
	l.mu.Lock()
	err := l.enter(user)
	if err == nil {
		l.mu.Unlock()
		return nil
	}
	w := &waiter{user, make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.counted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // Leave has counted this call
		if ctx.Err() == nil {
			return nil
		}
		l.Leave(user)
	}
	return err
}

// Leave releases what one successful call of [Limit.Enter] or [Limit.Await] has counted.
func (l *Limit) Leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.n[user]--; l.n[user] == 0 {
		delete(l.n, user)
	}
	for i, w := range l.waiting {
		if l.enter(w.user) == nil {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			close(w.counted)
			return
		}
	}
}
