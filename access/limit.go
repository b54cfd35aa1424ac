package access

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limit bounds what each user has under way at the same time, and what all users have together: streams, requests that wait, turns. It is
// safe for concurrent use.
type Limit struct {
	most, all int
	mu        sync.Mutex
	n         map[string]int
	total     int
	waiting   []*waiter // calls of Await, in their order
}

// waiter is a call of Await. Its channel is closed when it is counted.
type waiter struct {
	user    string
	counted chan struct{}
}

// NewLimit makes a limit for each user and for all users together. For most, 0 or less is 1,024; for all, 0 or less is any number.
func NewLimit(most, all int) *Limit {
	if most <= 0 {
		most = 1024
	}
	return &Limit{most: most, all: all, n: make(map[string]int)}
}

// LimitError says that a user has too much under way, or that all together have.
type LimitError struct {
	// Most is how much a user may have, or all together.
	Most int
	// All says that it is all together who have that much.
	All bool
}

func (e *LimitError) Error() string {
	if e.All {
		return fmt.Sprintf("the server has %d under way, and takes no more", e.Most)
	}
	return fmt.Sprintf("the user has %d under way, and may not have more", e.Most)
}

// Enter counts something of a user, until [Limit.Leave] is called. The error is a *[LimitError];
// then nothing was counted.
func (l *Limit) Enter(user string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter(user)
}

// enter is Enter, with the mutex.
func (l *Limit) enter(user string) error {
	switch {
	case l.all > 0 && l.total >= l.all:
		return &LimitError{Most: l.all, All: true}
	case l.n[user] >= l.most:
		return &LimitError{Most: l.most}
	}
	l.n[user]++
	l.total++
	return nil
}

// patience is how long Await waits. A client reads the end of a stream or a turn before the server has
// cleaned up after it, and may begin the next one in this time without being refused.
const patience = 250 * time.Millisecond

// Await is [Limit.Enter] for a client that may have just read the end of something: at the limit it waits
// for up to a quarter of a second for a [Limit.Leave]. The error is a *[LimitError], or why ctx ended.
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
	if i < 0 { // it was counted meanwhile
		if ctx.Err() == nil {
			return nil
		}
		l.Leave(user)
	}
	return err
}

// Leave ends what one call of [Limit.Enter] or [Limit.Await] has counted.
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
