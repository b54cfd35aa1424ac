package servers

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Address returns a free address of the loopback interface for a server that stops and starts again. It fails the test
// if every port is in use. See [FreePorts].
func Address(t testing.TB) string {
	t.Helper()
	port, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return address(port)
}

// FreePorts returns the first of n free ports in a row of the loopback interface. They are outside the range from which the
// system chooses ports for connections and for listeners at port 0, so that a server can leave such a port and come back.
func FreePorts(n int) (int, error) {
	for range 100 {
		first := 11000 + rand.IntN(19000) // browsers refuse 10080
		if free(first, n) {
			return first, nil
		}
	}
	return 0, errors.New("found no free ports from 10000 to 30000")
}

func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
