package access

import (
	"fmt"
	"sync"
)

// Limit bounds what each user has under way at once: streams, requests that wait, turns. It is
// safe for concurrent use.
type Limit struct {
	most int
	mu   sync.Mutex
	n    map[string]int
}

// NewLimit makes a limit of so many at once for each user; 0 or less is 1,024.
func NewLimit(most int) *Limit {
	if most <= 0 {
		most = 1024
	}
	return &Limit{most: most, n: make(map[string]int)}
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
	if l.n[user] >= l.most {
		return &LimitError{Most: l.most}
	}
	l.n[user]++
	return nil
}

// Leave ends what one call of [Limit.Enter] has counted.
func (l *Limit) Leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n[user]--; l.n[user] <= 0 {
		delete(l.n, user)
	}
}
