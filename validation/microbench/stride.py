# A11: useful bandwidth of one 4-byte word every `stride` words; n words read by as many threads, cold and warm L2
import cupy as cp, numpy as np, json, sys
src=r'''extern "C" __global__ void stride_read(const float* in, float* out, unsigned long long n, unsigned long long stride){
 unsigned long long i=(unsigned long long)blockIdx.x*blockDim.x+threadIdx.x; float a=0;
 for(;i<n;i+=(unsigned long long)gridDim.x*blockDim.x) a+=in[i*stride]; if(a==12345.f) out[0]=a;}
extern "C" __global__ void stride_copy(const float* in, float* out, unsigned long long n, unsigned long long stride){
 unsigned long long i=(unsigned long long)blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i*stride]=in[i*stride];}'''
m=cp.RawModule(code=src); f=m.get_function('stride_read'); g=m.get_function('stride_copy')
big=cp.cuda.alloc(96<<30); o=cp.zeros(16,cp.float32); flush=cp.empty(256<<20,cp.uint8)
res=[]
for s in [1,2,4,8,16,32,64,128,256,512,1024,2048,4096,8192,1<<14,1<<16,1<<18,1<<20]:
    n=min(1<<27,(96<<30)//4//s); n-=n%256
    for name in('read','copy'):
        half=(48<<30)
        nn=n if name=='read' else min(n,half//4//s)//256*256
        if nn<1024: continue
        ts=[]
        for r in range(12):
            flush.fill(r)
            e0,e1=cp.cuda.Event(),cp.cuda.Event(); e0.record()
            if name=='read': f(((nn+255)//256 if nn<(1<<22) else 132*16,),(256,),(np.uint64(big.ptr),o,np.uint64(nn),np.uint64(s)))
            else: g(((nn+255)//256,),(256,),(np.uint64(big.ptr),np.uint64(big.ptr+half),np.uint64(nn),np.uint64(s)))
            e1.record(); e1.synchronize(); ts.append(cp.cuda.get_elapsed_time(e0,e1)*1e3)
        ts=sorted(ts)[1:-1]; t=float(np.median(ts))
        useful=nn*4*(2 if name=='copy' else 1)
        res.append({'kernel':name,'stride_words':s,'words':nn,'median_us':t,'min_us':ts[0],'max_us':ts[-1],'useful_GBps':useful/t/1e3}); print(res[-1],flush=True)
json.dump(res,open(sys.argv[1],'w'),indent=1)
