package expression

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNeverTrue: a condition that can only be a number or a text is refused before it
// runs, although the values are not known.
func TestNeverTrue(t *testing.T) {
	for _, source := range []string{
		"output.x + 1", "output.x + output.y", "-output.x", "output.x * 2", "output.x % 2", "output.x ** 2", "sum(output.x)",
		"output.x == 1 and output.y - 1", "not (output.x - 2)", "output.x + 1 ? true : false", "output.x == 1 ? output.y + 1 : output.z - 1",
		"(output.x + 1) ?? (output.y - 1)",
	} {
		_, err := Language{}.CompileCondition(source)
		require.ErrorContains(t, err, "a condition must be true or false, and this is a", source)
		_, err = Language{}.Compile(source)
		require.NoError(t, err, source)
	}
	for _, source := range []string{
		"output.x", "output.x + 1 > 2", "-output.x < 3", "output.x % 2 == 0", "sum(output.x) > 1", "output.x ?? true", "(output.x + 1) in output.y",
		"output.x == 1 ? output.y : output.z - 1 > 2",
	} {
		_, err := Language{}.CompileCondition(source)
		require.NoError(t, err, source)
	}
}
