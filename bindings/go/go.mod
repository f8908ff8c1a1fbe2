module weir.invalid/go/weir

go 1.19
