package temporal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEachQuestionHasItsTime has a question that is asked while another one is open: each is denied after the whole time.
func TestEachQuestionHasItsTime(t *testing.T) {
	first := time.Unix(0, 0)
	later := first.Add(59 * time.Minute)
	in := turnInput{settings: settings{Approval: time.Hour}}
	in.Asked = in.limit([]int64{5, 6}, first)
	in.Asked = in.limit([]int64{6, 9}, later) // 5 is decided
	require.Equal(t, []question{{6, first.Add(time.Hour)}, {9, later.Add(time.Hour)}}, in.Asked)

	require.Empty(t, (&turnInput{}).limit([]int64{5}, first), "no question is denied by default")
}
