#pragma once
#include <cstdio>
#include <cstdlib>
#include <ctime>
struct ZZ {
  const char* name; double start; double a=0,b=0,c=0,d=0;
  static double now(){timespec t;clock_gettime(CLOCK_PROCESS_CPUTIME_ID,&t);return double(t.tv_sec)+1e-9*double(t.tv_nsec);}
  static int& depth(){static int x=0;return x;}
  explicit ZZ(const char*n):name(n),start(now()){++depth();}
  ~ZZ(){--depth(); static bool on=std::getenv("HSLOG"); if(on&&now()-start>0.003)std::fprintf(stderr,"%*s%-24s %.3f  a=%.6g b=%.6g c=%.8g d=%.8g\n",2*depth(),"",name,now()-start,a,b,c,d);}
};
