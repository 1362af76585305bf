package main

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger logs to stderr, one line for each event.
func newLogger(level zapcore.Level) *zap.Logger {
	cfg := zap.NewProductionConfig()
	cfg.Level.SetLevel(level)
	cfg.Encoding = "console"
	cfg.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	cfg.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	cfg.DisableCaller = true
	cfg.DisableStacktrace = true
	cfg.Sampling = nil
	return zap.Must(cfg.Build())
}
