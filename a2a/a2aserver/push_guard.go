package a2aserver

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

var errPushAddress = errors.New("the address is not public")

// dialGuard refuses connections by the address that a name led to.
type dialGuard struct {
	control func(network, address string, c syscall.RawConn) error
	refused func(error) bool // whether an error is the guard's
}

func newDialGuard(allowLoopback bool) dialGuard {
	return dialGuard{
		control: func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %w", errPushAddress, err)
			}
			a := ap.Addr().WithZone("").Unmap()
			if a.IsLoopback() && allowLoopback {
				return nil
			}
			if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() {
				return fmt.Errorf("%w: %s", errPushAddress, a)
			}
			return nil
		},
		refused: func(err error) bool { return errors.Is(err, errPushAddress) },
	}
}
