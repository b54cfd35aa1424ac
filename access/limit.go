package access

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limit bounds what each user has under way at once: streams, requests that wait, turns. It is
// safe for concurrent use.
type Limit struct {
	most    int
	mu      sync.Mutex
	n       map[string]int
	waiting map[string][]chan struct{} // calls of Await, in their order; each is closed when it is counted
}

// NewLimit makes a limit of so many at once for each user; 0 or less is 1,024.
func NewLimit(most int) *Limit {
	if most <= 0 {
		most = 1024
	}
	return &Limit{most: most, n: make(map[string]int), waiting: make(map[string][]chan struct{})}
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
	if l.n[user] >= l.most {
		return &LimitError{Most: l.most}
	}
	l.n[user]++
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
	counted := make(chan struct{})
	l.waiting[user] = append(l.waiting[user], counted)
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-counted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	i := slices.Index(l.waiting[user], counted)
	if i >= 0 {
		l.waiting[user] = slices.Delete(l.waiting[user], i, i+1)
		l.forget(user)
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
	if next := l.waiting[user]; len(next) > 0 {
		close(next[0])
		l.waiting[user] = slices.Delete(next, 0, 1)
	} else {
		l.n[user]--
	}
	l.forget(user)
}

// forget drops a user who has nothing under way. It is called with the mutex.
func (l *Limit) forget(user string) {
	if len(l.waiting[user]) == 0 {
		delete(l.waiting, user)
	}
	if l.n[user] <= 0 {
		delete(l.n, user)
	}
}
