package session

import "errors"

// ErrUnavailable reports that a store failed for a reason that is not in the request: its database cannot be reached,
// its disk is full, or a statement was canceled. The same request may succeed later.
var ErrUnavailable = errors.New("the store is not available")

// Unavailable returns an error that is [ErrUnavailable] and wraps err; its text is that of err. It returns nil if err
// is nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return &unavailable{err}
}

type unavailable struct{ error }

func (u *unavailable) Unwrap() error { return u.error }

func (*unavailable) Is(target error) bool { return target == ErrUnavailable }
