package adapter

import (
	"context"
	"time"
)

func testContext(bound time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), bound)
}
