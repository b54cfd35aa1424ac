package a2agrpc

import (
	"context"
	"testing"

	pb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/agentarbor/arbor/a2a/a2aserver"
)

// A caller with too many calls under way is told that it is, and to come back.
func TestTooManyCalls(t *testing.T) {
	s := serve(t, &stub{err: a2aserver.ErrTooManyCalls}, nil)
	_, err := pb.NewA2AServiceClient(s.conn).GetTask(context.Background(), &pb.GetTaskRequest{Id: "t"})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}
