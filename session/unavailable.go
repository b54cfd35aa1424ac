package session

import "errors"

// ErrUnavailable reports that a store failed for a reason outside the request: its database cannot be reached, its
// disk is full, a statement was canceled. The same request may succeed later.
var ErrUnavailable = errors.New("the store is not available")

// Unavailable returns an error that is [ErrUnavailable], with the words and the chain of another one. It returns nil for nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return &unavailable{err}
}

type unavailable struct{ error }

func (u *unavailable) Unwrap() error { return u.error }

func (*unavailable) Is(target error) bool { return target == ErrUnavailable }
