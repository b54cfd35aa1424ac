package lazyregexp_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/lazyregexp"
)

func TestLazyRegexp(t *testing.T) {
	word := lazyregexp.New(`^(\w+)!$`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { word.MatchString("first") })
	}
	all.Wait()
	require.True(t, word.MatchString("hello!"))
	require.False(t, word.MatchString("hello"))
	require.Equal(t, []string{"hello!", "hello"}, word.FindStringSubmatch("hello!"))
	require.Same(t, word.Get(), word.Get(), "it is compiled once")

	wrong := lazyregexp.New(`(`)
	require.Panics(t, func() { wrong.MatchString("") })
}
