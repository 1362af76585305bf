module github.com/idworker/idworker/testing/bench/peers

go 1.26.0

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/idworker/idworker v0.0.0
	github.com/sony/sonyflake v1.3.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/idworker/idworker => ../../../
