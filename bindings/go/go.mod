module weir.dev/go/weir

go 1.19
